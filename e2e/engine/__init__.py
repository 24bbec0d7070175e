# SPDX-License-Identifier: Apache-2.0
"""vLLM engines without a GPU: their Python environment, a small model for them, and how to start one."""
