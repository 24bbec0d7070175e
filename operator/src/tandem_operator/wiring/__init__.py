# SPDX-License-Identifier: Apache-2.0
"""Puts the parts together: kopf's watches wake a queue, whose workers read live, plan, and apply. The only code that knows kopf."""
