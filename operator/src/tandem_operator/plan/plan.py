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
from tandem_operator.plan.progress import is_observed
from tandem_operator.plan.resolved import Resolved
from tandem_operator.plan.revision import revision_of
from tandem_operator.plan.scalers import new_scalers, scalers
from tandem_operator.plan.services import headless_service
from tandem_operator.plan.sized import sized
from tandem_operator.plan.topology import pod_patches
from tandem_operator.plan.types import Defaults, Manifest, ObjectKey, Observed, Plan, WantedKey


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
    resolved = sized(observed, pods, defaults).resolved
    revision = revision_of(resolved)
    objects = (
        *_engines(resolved),
        *front_door(resolved),
        *scalers(resolved),
        *network_policies(resolved),
        *disruption_budgets(pods, resolved, observed.at),
    )
    return Plan(
        objects=objects,
        obsolete=_obsolete(observed, objects),
        pod_patches=pod_patches(observed, pods, resolved, revision),
        key=_key(pods, resolved, revision),
        new=new_scalers(observed, resolved),
    )


def _engines(resolved: Resolved) -> Iterator[Manifest]:
    for role in Role:
        pool = resolved.pools[role]
        config = config_map(resolved, pool)
        yield headless_service(resolved, role)
        yield config
        yield stateful_set(resolved, pool, config)


def _key(pods: Sequence[EnginePod], resolved: Resolved, revision: str) -> WantedKey | None:
    """Engines that run have read their key, so nothing is asked of the API server while all of them do."""
    started = [pod.role for pod in pods if pod.peer and pod.revision == revision]
    if all(started.count(role) >= pool.replicas for role, pool in resolved.pools.items()):
        return None
    return wanted_key(resolved)


def _obsolete(observed: Observed, objects: tuple[Manifest, ...]) -> tuple[ObjectKey, ...]:
    wanted = {key_of(manifest) for manifest in objects}
    unwanted = {key for key in observed.owned - wanted if key.kind in KINDS}
    if not all(_is_settled(manifest) for manifest in observed.sets.values()):
        # Until its roll-out is over, a StatefulSet may still make a pod of the old template.
        unwanted = {key for key in unwanted if key.kind != "ConfigMap"}
    in_use = {name for manifest in _pod_specs(observed) for name in _config_maps(manifest)}
    return tuple(sorted(key for key in unwanted if not (key.kind == "ConfigMap" and key.name in in_use)))


def _is_settled(stateful_set: Manifest) -> bool:
    status = stateful_set.get("status", {})
    return is_observed(stateful_set) and bool(status.get("currentRevision") == status.get("updateRevision"))


def _pod_specs(observed: Observed) -> Iterator[Manifest]:
    yield from (pod.get("spec", {}) for pod in observed.pods)
    yield from (manifest["spec"]["template"]["spec"] for manifest in observed.sets.values())


def _config_maps(pod_spec: Manifest) -> Iterator[str]:
    for volume in pod_spec.get("volumes") or ():
        if "configMap" in volume:
            yield volume["configMap"]["name"]
