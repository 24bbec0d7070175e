# SPDX-License-Identifier: Apache-2.0
"""Builders of what tests arrange: a resource, a pod, a node, as small as they can be and changed in words."""

from tests.builders.nodes import a_node
from tests.builders.pods import a_pod, a_ready_pod
from tests.builders.resources import a_resource

__all__ = ["a_node", "a_pod", "a_ready_pod", "a_resource"]
