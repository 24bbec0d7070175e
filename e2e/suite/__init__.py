# SPDX-License-Identifier: Apache-2.0
"""End-to-end tests: a real API server, a real node, real engines."""
