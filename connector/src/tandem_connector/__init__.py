# SPDX-License-Identifier: Apache-2.0
"""What runs beside and inside a vLLM engine, and the contract it shares with the operator."""
