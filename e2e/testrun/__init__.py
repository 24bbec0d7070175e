# SPDX-License-Identifier: Apache-2.0
"""How `make test` runs all tests: what can share a machine first, on all cores, and then the rest alone."""
