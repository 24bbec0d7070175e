# SPDX-License-Identifier: Apache-2.0
"""What one reconcile observes, and the same after its plan has been carried out."""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from tandem_connector.contract.types import Role
from tandem_operator.api.names import REVISION_LABEL, ROLE_LABEL
from tandem_operator.api.resource import DisaggregatedInference
from tandem_operator.plan.children import key_of
from tandem_operator.plan.errors import InvalidSpec
from tandem_operator.plan.plan import plan
from tandem_operator.plan.types import Defaults, Manifest, Observed, Plan
from tests.builders.nodes import NodeBuilder
from tests.builders.pods import PodBuilder
from tests.builders.resources import ResourceBuilder, a_resource
from tests.builders.workloads import TEMPLATE, a_deployment, a_set

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
DEFAULTS = Defaults(front_door_image="tandem.dev/front-door:0.1.0", connector_image="tandem.dev/connector-init:0.1.0")


def observed(
    resource: ResourceBuilder | None = None,
    pods: Iterable[PodBuilder] = (),
    nodes: Iterable[NodeBuilder] = (),
    sets: Mapping[Role, Manifest] | None = None,
    **more: Any,
) -> Observed:
    """A resource with settled sets of the revision that it asks for and a front door that is up, until told otherwise."""
    given = (resource or a_resource()).build()
    records = {} if sets == {} else {"revisions": revisions_of(given)}
    found = {role: a_set(role, resource=given.metadata.name) for role in Role} if sets is None else sets
    return Observed(
        resource=given,
        pods=tuple(pod.build() for pod in pods),
        nodes={node.name: node.build() for node in nodes},
        sets=tuple(_of_revision(manifest, role, records) for role, manifest in found.items()),
        **{"at": NOW, "front_door": a_deployment(), **records, **more},
    )


def revisions_of(resource: DisaggregatedInference) -> tuple[Manifest, ...]:
    """The ControllerRevision of what a resource asks for; none when it can't be acted on."""
    try:
        planned = plan(Observed(resource=resource, at=NOW), DEFAULTS)
    except InvalidSpec:
        return ()
    return tuple(each for each in planned.objects if each["kind"] == "ControllerRevision")


def _of_revision(manifest: Manifest, role: Role, records: Mapping[str, tuple[Manifest, ...]]) -> dict[str, Any]:
    labelled = deepcopy(dict(manifest))
    labelled["metadata"].setdefault("labels", {})[ROLE_LABEL] = str(role)
    for record in records.get("revisions", ()):
        name = record["metadata"]["labels"][REVISION_LABEL]
        labelled["spec"]["template"].setdefault("metadata", {}).setdefault("labels", {}).setdefault(
            REVISION_LABEL, name
        )
    return labelled


def carried_out(seen: Observed, planned: Plan) -> Observed:
    """What is observed next, when all of the plan has been done and nothing else has happened."""
    patches = {patch.uid: patch for patch in planned.pod_patches}
    pods = []
    for pod in seen.pods:
        patch = patches.get(pod["metadata"]["uid"])
        pods.append(PodBuilder(dict(pod)).patched(patch.labels, patch.annotations).build() if patch else pod)
    made = {Role(manifest["metadata"]["labels"][ROLE_LABEL]): manifest for manifest in planned.new}
    owned = seen.owned - set(planned.obsolete) | {key_of(manifest) for manifest in planned.objects}
    status = {each["metadata"]["name"]: each["status"] for each in seen.sets}
    sets = [_made(each, status) for each in planned.objects if each["kind"] == "StatefulSet"]
    revisions = [each for each in planned.objects if each["kind"] == "ControllerRevision"]
    return replace(
        seen,
        pods=tuple(pods),
        owned=owned,
        sets=tuple(sets),
        revisions=tuple(revisions),
        scalers={**made, **seen.scalers},
    )


def _made(manifest: Manifest, status: Mapping[str, Any]) -> Manifest:
    """A set as its controller has seen it."""
    name = manifest["metadata"]["name"]
    metadata = {**manifest["metadata"], "uid": f"set-{name}", "generation": 2}
    seen = {"observedGeneration": 2, "currentRevision": TEMPLATE, "updateRevision": TEMPLATE}
    return {**manifest, "metadata": metadata, "status": status.get(name, seen)}


def settled(seen: Observed) -> Observed:
    """`seen` after one reconcile."""
    return carried_out(seen, plan(seen, DEFAULTS))
