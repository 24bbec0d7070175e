# SPDX-License-Identifier: Apache-2.0
"""Conversations over the KV exchange, over upstream's connector and over one plain engine, on this machine."""
