# SPDX-License-Identifier: Apache-2.0
"""Which children go."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tandem_connector.contract.types import Role
from tandem_operator.plan.plan import plan
from tandem_operator.plan.types import Manifest, ObjectKey, Observed
from tests.builders import DEFAULTS, a_pod, a_resource, a_set, observed, settled
from tests.builders.pods import PodBuilder

OLD = ObjectKey("v1", "ConfigMap", "qwen-decode-0123456789")


def obsolete(seen: Observed) -> set[ObjectKey]:
    return set(plan(seen, DEFAULTS).obsolete)


def with_old_configuration(sets: Mapping[Role, Manifest] | None = None, **more: Any) -> Observed:
    seen = settled(observed(**more))
    sets_now = seen.sets if sets is None else observed(sets=sets).sets
    return replace(seen, owned=seen.owned | {OLD}, sets=sets_now)


def pod_with(config_map: str) -> PodBuilder:
    manifest = a_pod().build()
    manifest["spec"]["volumes"] = [{"name": "launch", "configMap": {"name": config_map}}, {"name": "a", "emptyDir": {}}]
    return PodBuilder(manifest)


def test_nothing_goes_while_nothing_changes() -> None:
    assert obsolete(settled(observed())) == set()


def test_the_routers_objects_go_with_the_front_door_and_its_service_stays() -> None:
    seen = settled(observed())
    resource = a_resource().with_spec("frontDoor", "enabled", value=False).build()
    rbac = "rbac.authorization.k8s.io/v1"
    assert obsolete(replace(seen, resource=resource)) == {
        ObjectKey("apps/v1", "Deployment", "qwen"),
        ObjectKey("v1", "ServiceAccount", "qwen"),
        ObjectKey(rbac, "Role", "qwen"),
        ObjectKey(rbac, "RoleBinding", "qwen"),
    }


def test_an_old_launch_configuration_goes_when_nobody_needs_it() -> None:
    assert obsolete(with_old_configuration()) == {OLD}


def test_a_launch_configuration_stays_while_a_pod_uses_it() -> None:
    assert obsolete(with_old_configuration(pods=[pod_with(OLD.name)])) == set()


def test_a_launch_configuration_stays_while_a_set_uses_it() -> None:
    old = a_set(Role.DECODE)
    old["spec"]["template"]["spec"]["volumes"] = [{"name": "launch", "configMap": {"name": OLD.name}}]
    assert obsolete(with_old_configuration(sets={Role.DECODE: old})) == set()


def test_launch_configurations_stay_while_a_roll_out_goes_on() -> None:
    assert obsolete(with_old_configuration(sets={Role.DECODE: a_set(Role.DECODE, current="t0")})) == set()
    assert obsolete(with_old_configuration(sets={Role.DECODE: a_set(Role.DECODE, seen=False)})) == set()


def test_kinds_that_are_never_planned_are_someone_elses() -> None:
    seen = settled(observed())
    foreign = ObjectKey("v1", "Secret", "qwen-note")
    assert obsolete(replace(seen, owned=seen.owned | {foreign})) == set()


def test_a_resource_that_is_being_deleted_is_left_to_the_garbage_collector() -> None:
    planned = plan(observed(a_resource().being_deleted(), pods=[a_pod()]), DEFAULTS)
    assert (planned.objects, planned.obsolete, planned.pod_patches) == ((), (), ())
