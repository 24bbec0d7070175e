# SPDX-License-Identifier: Apache-2.0
"""Real engines under mixed load and random faults for a long time: no answer wrong or lost, nothing held afterwards."""
