# SPDX-License-Identifier: Apache-2.0
"""Builders of what tests arrange: a resource, a pod, a node, as small as they can be and changed in words."""

from tests.builders.nodes import a_node
from tests.builders.pods import a_pod, a_ready_pod
from tests.builders.resources import a_resource
from tests.builders.surroundings import DEFAULTS, NOW, carried_out, observed, settled
from tests.builders.workloads import TEMPLATE, a_deployment, a_scaler, a_set

__all__ = [
    "DEFAULTS",
    "NOW",
    "TEMPLATE",
    "a_deployment",
    "a_node",
    "a_pod",
    "a_ready_pod",
    "a_resource",
    "a_scaler",
    "a_set",
    "carried_out",
    "observed",
    "settled",
]
