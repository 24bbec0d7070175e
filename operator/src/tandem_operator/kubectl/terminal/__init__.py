# SPDX-License-Identifier: Apache-2.0
"""Views as people see them in a terminal."""
