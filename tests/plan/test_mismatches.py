# SPDX-License-Identifier: Apache-2.0
"""Engines that can't work together, though each of them is well."""

import pytest

from tandem_connector.contract.environment import NO_NIXL
from tandem_connector.contract.types import Role
from tandem_operator.api.names import REVISION_LABEL
from tandem_operator.api.status import ConditionType
from tandem_operator.plan.outcome import outcome
from tandem_operator.plan.types import Observed
from tests.builders import DEFAULTS, NOW, TEMPLATE, a_node, a_pod, a_ready_pod, a_resource, observed
from tests.builders.pods import PodBuilder
from tests.builders.resources import ResourceBuilder
from tests.plan.made import template

P, D = Role.PREFILL, Role.DECODE
ON_CPUS, ON_EFA = a_resource(), a_resource().on("p5en.48xlarge").with_tensor(8)


def serving(resource: ResourceBuilder, role: Role, image: str = "", ordinal: int = 0) -> PodBuilder:
    revision = template(resource)["metadata"]["labels"][REVISION_LABEL]
    manifest = a_ready_pod(role, ordinal).of_revision(revision).of_template(TEMPLATE).routable().build()
    manifest["status"]["containerStatuses"][0]["imageID"] = image
    return PodBuilder(manifest)


def degraded(seen: Observed) -> tuple[str, str]:
    (found,) = [each for each in outcome(seen, DEFAULTS, NOW).status.conditions if each.type == ConditionType.DEGRADED]
    return found.reason, found.message


def in_zones(resource: ResourceBuilder, *zones: str) -> Observed:
    nodes = [a_node(f"node-{number}").in_zone(zone) for number, zone in enumerate(zones)]
    pods = [serving(resource, role).on_node(node.name) for role, node in zip((P, D), nodes, strict=True)]
    return observed(resource, pods, nodes)


def test_engines_with_efa_in_two_zones_degrade_with_both_names() -> None:
    reason, message = degraded(in_zones(ON_EFA, "us-west-2a", "us-west-2b"))
    assert reason == "ZonesDiffer"
    assert "in the zones us-west-2a, us-west-2b" in message
    assert "spec.placement.nodeSelector" in message


def test_one_zone_is_well_and_so_are_several_without_efa() -> None:
    assert degraded(in_zones(ON_EFA, "us-west-2a", "us-west-2a"))[0] == "Healthy"
    assert degraded(in_zones(ON_CPUS, "us-west-2a", "us-west-2b"))[0] == "Healthy"


def test_a_tag_that_moved_between_two_pulls_degrades() -> None:
    old, new = f"docker.io/vllm/vllm-openai@sha256:{'a' * 64}", f"mirror.example.com/vllm@sha256:{'b' * 64}"
    reason, message = degraded(observed(pods=[serving(ON_CPUS, P, old), serving(ON_CPUS, D, new)]))
    assert reason == "EngineVersionsDiffer"
    assert f"({'a' * 12}, {'b' * 12})" in message
    assert "by its digest in spec.engine.image" in message


@pytest.mark.parametrize("other", [f"mirror.example.com/vllm@sha256:{'a' * 64}", f"sha256:{'a' * 64}", ""])
def test_the_same_image_from_elsewhere_is_the_same(other: str) -> None:
    one = f"docker.io/vllm/vllm-openai@sha256:{'a' * 64}"
    assert degraded(observed(pods=[serving(ON_CPUS, P, one), serving(ON_CPUS, D, other)]))[0] == "Healthy"


def test_engines_of_another_revision_or_that_end_may_have_another_image() -> None:
    old, new = f"sha256:{'a' * 64}", f"sha256:{'b' * 64}"
    for leaving in (serving(ON_CPUS, D, old, 1).of_revision("old"), serving(ON_CPUS, D, old, 1).terminating()):
        pods = [serving(ON_CPUS, P, new), serving(ON_CPUS, D, new), leaving]
        assert degraded(observed(pods=pods))[0] == "Healthy"


def test_an_image_without_nixl_is_named_as_the_cause() -> None:
    ended = {"terminated": {"exitCode": 1, "reason": "Error", "message": NO_NIXL}}
    failing = a_pod(D).with_container(state={"waiting": {"reason": "CrashLoopBackOff"}}, last=ended, restarts=2)
    assert degraded(observed(pods=[failing])) == ("NixlMissing", f"spec.engine.image: {NO_NIXL}")
