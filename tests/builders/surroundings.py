# SPDX-License-Identifier: Apache-2.0
"""What one reconcile observes, and the same after its plan has been carried out."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from tandem_connector.contract.types import Role
from tandem_operator.api.names import ROLE_LABEL
from tandem_operator.plan.children import key_of
from tandem_operator.plan.plan import plan
from tandem_operator.plan.types import Defaults, Observed, Plan
from tests.builders.nodes import NodeBuilder
from tests.builders.pods import PodBuilder
from tests.builders.resources import ResourceBuilder, a_resource
from tests.builders.workloads import a_deployment, a_set

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
DEFAULTS = Defaults(front_door_image="tandem.dev/front-door:0.1.0", connector_image="tandem.dev/connector-init:0.1.0")


def observed(
    resource: ResourceBuilder | None = None,
    pods: Iterable[PodBuilder] = (),
    nodes: Iterable[NodeBuilder] = (),
    **more: Any,
) -> Observed:
    """A resource with settled sets and a front door that is up, until told otherwise."""
    given = {"at": NOW, "sets": {role: a_set(role) for role in Role}, "front_door": a_deployment(), **more}
    return Observed(
        resource=(resource or a_resource()).build(),
        pods=tuple(pod.build() for pod in pods),
        nodes={node.name: node.build() for node in nodes},
        **given,
    )


def carried_out(seen: Observed, planned: Plan) -> Observed:
    """What is observed next, when all of the plan has been done and nothing else has happened."""
    patches = {patch.uid: patch for patch in planned.pod_patches}
    pods = []
    for pod in seen.pods:
        patch = patches.get(pod["metadata"]["uid"])
        pods.append(PodBuilder(dict(pod)).patched(patch.labels, patch.annotations).build() if patch else pod)
    made = {Role(manifest["metadata"]["labels"][ROLE_LABEL]): manifest for manifest in planned.new}
    owned = seen.owned - set(planned.obsolete) | {key_of(manifest) for manifest in planned.objects}
    return replace(seen, pods=tuple(pods), owned=owned, scalers={**made, **seen.scalers})


def settled(seen: Observed) -> Observed:
    """`seen` after one reconcile."""
    return carried_out(seen, plan(seen, DEFAULTS))
