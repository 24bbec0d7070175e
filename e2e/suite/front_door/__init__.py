# SPDX-License-Identifier: Apache-2.0
"""The front doors themselves, vllm-router and nginx, over stand-ins for engines: what clients notice when one fails."""
