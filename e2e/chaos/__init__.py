# SPDX-License-Identifier: Apache-2.0
"""Proofs under change, on a real cluster with real engines."""
