# SPDX-License-Identifier: Apache-2.0
"""Tests of the provider `local` itself: what it starts, and that it leaves nothing behind."""
