# SPDX-License-Identifier: Apache-2.0
"""What to do, decided from what is wanted and what is seen. Pure: no I/O, no clock, no kopf."""
