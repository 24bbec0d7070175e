# SPDX-License-Identifier: Apache-2.0
"""Real engines that exchange KV on this machine, as ordinary processes without a cluster, and what they say of it."""
