# SPDX-License-Identifier: Apache-2.0
"""Engines come and go by every planned way while conversations run through the front door: `make chaos-topology`."""
