# SPDX-License-Identifier: Apache-2.0
"""The KV connector inside vLLM: everything that touches vLLM, NIXL, sockets or threads."""
