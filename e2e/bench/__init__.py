# SPDX-License-Identifier: Apache-2.0
"""Benchmarks. Each prints lines `figure NAME VALUE UNIT`."""
