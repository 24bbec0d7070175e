# SPDX-License-Identifier: Apache-2.0
"""How fast the operator tells engines of each other, with 1,000 of them, and what it costs."""
