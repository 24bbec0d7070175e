# SPDX-License-Identifier: Apache-2.0
"""Tests with real vLLM engines in pods. They share one cluster and one resource and run in the order of their files."""
