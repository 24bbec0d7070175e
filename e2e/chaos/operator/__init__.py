# SPDX-License-Identifier: Apache-2.0
"""Faults of the operator and of all that it stands on, on a control plane with simulated nodes: what is left of each afterwards."""
