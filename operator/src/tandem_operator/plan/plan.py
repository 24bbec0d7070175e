# SPDX-License-Identifier: Apache-2.0
"""What is to be done for one resource."""

from collections.abc import Iterator, Sequence

from tandem_connector.contract.types import Role
from tandem_operator.plan.access import network_policies
from tandem_operator.plan.children import KINDS, key_of
from tandem_operator.plan.disruption import disruption_budgets
from tandem_operator.plan.engines import config_map, stateful_set
from tandem_operator.plan.front_door import front_door
from tandem_operator.plan.keys import wanted_key
from tandem_operator.plan.pods import EnginePod, engine_pods
from tandem_operator.plan.quarantine import to_restart
from tandem_operator.plan.revision import Revision
from tandem_operator.plan.revisions import record
from tandem_operator.plan.rollout import Rollout, rollout
from tandem_operator.plan.scalers import new_scalers, scalers
from tandem_operator.plan.services import headless_service
from tandem_operator.plan.sets import is_observed, name_of_set
from tandem_operator.plan.topology import pod_patches
from tandem_operator.plan.types import Defaults, Eviction, Manifest, ObjectKey, Observed, Plan, WantedKey


def plan(observed: Observed, defaults: Defaults) -> Plan:
    """The children as they should be, those that should go, and the pods whose metadata differs.

    The same input gives the same plan, and a plan that has been carried out is followed by one without patches. A
    resource that is being deleted is left to the garbage collector.

    Raises:
        InvalidSpec: when the spec cannot be acted on.
    """
    if observed.resource.metadata.deletion_timestamp:
        return Plan((), (), ())
    pods = engine_pods(observed)
    course = rollout(observed, pods, defaults)
    resolved = course.resolved
    objects = (
        *(headless_service(resolved, role) for role in Role),
        *_revisions(course),
        *front_door(resolved, course.fronted),
        *scalers(resolved),
        *network_policies(resolved),
        *disruption_budgets(pods, resolved, observed.at),
    )
    return Plan(
        objects=objects,
        obsolete=_obsolete(observed, objects),
        pod_patches=pod_patches(observed, pods, course),
        key=_key(pods, course),
        new=new_scalers(observed, course),
        evictions=_evictions(observed, pods),
    )


def _evictions(observed: Observed, pods: Sequence[EnginePod]) -> tuple[Eviction, ...]:
    status = observed.resource.status
    due = to_restart(status.quarantined, pods, observed.at) if status else ()
    return tuple(Eviction(pod.name, pod.uid) for pod in due)


def _revisions(course: Rollout) -> Iterator[Manifest]:
    """The target, and what is left of others; and the wanted one's record, which tells that it was given up."""
    standing = course.standing
    kept = [each for each in standing.others if not _is_over(each, course)]
    recorded = {each.name: each for each in (*kept, standing.target, standing.wanted)}
    if course.is_held_back and standing.wanted.name not in {each.name for each in kept}:
        del recorded[standing.wanted.name]
    yield from (record(course.resolved, each) for each in recorded.values() if each.is_recorded)
    for each in (*kept, standing.target):
        yield from _engines(course, each)


def _engines(course: Rollout, revision: Revision) -> Iterator[Manifest]:
    resolved, sets = course.resolved, course.sets
    for role, part in revision.parts.items():
        if not part.template:
            continue
        if part.launch is not None:
            yield config_map(resolved, role, part.launch)
        name = name_of_set(resolved.name, role, revision.name, sets)
        yield stateful_set(resolved, revision, role, name, course.replicas[revision.name].of(role))


def _is_over(revision: Revision, course: Rollout) -> bool:
    """Whether a revision that isn't the target has no engines, and its sets make none any more."""
    own = [each.manifest for each in course.sets if each.revision == revision.name]
    return course.standing.groups[revision.name].is_gone and all(map(is_observed, own))


def _key(pods: Sequence[EnginePod], course: Rollout) -> WantedKey | None:
    """Engines that run have read their key, so nothing is asked of the API server while all of them do."""
    started = [pod.role for pod in pods if pod.peer and pod.revision == course.target.name]
    if all(started.count(role) >= course.sized.wanted.of(role) for role in Role):
        return None
    return wanted_key(course.resolved)


def _obsolete(observed: Observed, objects: tuple[Manifest, ...]) -> tuple[ObjectKey, ...]:
    wanted = {key_of(manifest) for manifest in objects}
    unwanted = {key for key in observed.owned - wanted if key.kind in KINDS}
    if not all(_is_settled(manifest) for manifest in observed.sets):
        # Until its roll-out is over, a StatefulSet may still make a pod of the old template.
        unwanted = {key for key in unwanted if key.kind != "ConfigMap"}
    in_use = {name for manifest in _pod_specs(observed) for name in _config_maps(manifest)}
    return tuple(sorted(key for key in unwanted if not (key.kind == "ConfigMap" and key.name in in_use)))


def _is_settled(stateful_set: Manifest) -> bool:
    status = stateful_set.get("status", {})
    return is_observed(stateful_set) and bool(status.get("currentRevision") == status.get("updateRevision"))


def _pod_specs(observed: Observed) -> Iterator[Manifest]:
    yield from (pod.get("spec", {}) for pod in observed.pods)
    yield from (manifest["spec"]["template"]["spec"] for manifest in observed.sets)


def _config_maps(pod_spec: Manifest) -> Iterator[str]:
    for volume in pod_spec.get("volumes") or ():
        if "configMap" in volume:
            yield volume["configMap"]["name"]
