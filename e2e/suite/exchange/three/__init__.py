# SPDX-License-Identifier: Apache-2.0
"""Tests that share one prefill and two decode engines with a key, small pools, and windows; in the order of their files."""
