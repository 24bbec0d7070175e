# SPDX-License-Identifier: Apache-2.0
"""For the `PYTHONPATH` of an operator whose time of day is to be wrong."""
