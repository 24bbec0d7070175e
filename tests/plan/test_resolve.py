# SPDX-License-Identifier: Apache-2.0
"""Defaults, and specs that cannot be acted on though the API server let them pass."""

import pytest

from tandem_connector.contract.types import Role
from tandem_operator.api.transfer import Backend, Protocol
from tandem_operator.plan.ending import Ending
from tandem_operator.plan.errors import InvalidSpec
from tandem_operator.plan.resolve import resolve
from tandem_operator.plan.resolved import NixlTransfer, PushTransfer, Resolved, Wiring
from tests.builders import DEFAULTS, a_resource
from tests.builders.resources import ResourceBuilder

P5EN = a_resource().on("p5en.48xlarge").with_tensor(8)


def resolved(resource: ResourceBuilder) -> Resolved:
    return resolve(resource.build(), DEFAULTS)


def refused(resource: ResourceBuilder) -> InvalidSpec:
    with pytest.raises(InvalidSpec) as error:
        resolved(resource)
    return error.value


def test_the_smallest_resource_is_one_engine_of_each_role_that_push_over_ucx_behind_a_front_door() -> None:
    found = resolved(a_resource())
    assert {role: (pool.replicas, pool.tensor) for role, pool in found.pools.items()} == {
        Role.PREFILL: (1, 1),
        Role.DECODE: (1, 1),
    }
    assert (found.protocol, found.backend) == (Protocol.PUSH, Backend.UCX)
    assert found.front_door.enabled
    assert found.front_door.image == DEFAULTS.front_door_image
    assert (found.front_door.policy, found.front_door.service_type) == ("consistent_hash", "ClusterIP")
    assert found.model.served_name == "Qwen3-32B"


def test_the_roles_may_have_different_numbers_of_ranks_and_their_gpus_are_counted() -> None:
    resource = P5EN.with_tensor(2).with_data(4, Role.DECODE)
    found = resolved(resource).pools
    assert {role: (pool.tensor, pool.data, pool.gpus) for role, pool in found.items()} == {
        Role.PREFILL: (2, 1, 2),
        Role.DECODE: (2, 4, 8),
    }
    assert resolved(resource.with_spec("accelerator", "gpusPerPod", value=8).with_data(4)).gpu_budget is None


def test_no_engines_can_be_wanted() -> None:
    assert resolved(a_resource().with_decode(0)).pools[Role.DECODE].replicas == 0


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("vllm/vllm-openai:v0.32.0", "0.32.0"),
        ("registry:5000/vllm:0.32.0-cu130", "0.32.0-cu130"),
        ("vllm/vllm-openai:v0.32.0@sha256:abc", "0.32.0"),
        ("registry:5000/vllm", ""),
        ("vllm@sha256:abc", ""),
    ],
)
def test_the_version_is_the_images_tag(image: str, version: str) -> None:
    assert resolved(a_resource().with_image(image)).version == version


@pytest.mark.parametrize(
    ("duration", "seconds"),
    [("20s", 20), ("1m30s", 90), ("500ms", 0.5), ("0.5m", 30), ("30m", 1800), ("1m0.25s", 60.25)],
)
def test_a_deadline_is_read_as_kubernetes_does(duration: str, seconds: float) -> None:
    transfer = resolved(a_resource().with_spec("transfer", "deadline", value=duration)).transfer
    assert isinstance(transfer, PushTransfer)
    assert transfer.patience == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("reverse", "bidirectional"),
    [(None, False), ("Disabled", False), ("Push", True), ("Fetch", True), ("PushAndFetch", True)],
)
def test_vllms_connector_sends_back_only_when_it_is_told_to(reverse: str | None, bidirectional: bool) -> None:
    """Blocks that wait for a front door to fetch them are held for minutes."""
    transfer = {"protocol": "NixlPull"} | ({"reverse": reverse} if reverse else {})
    assert resolved(a_resource().with_spec("transfer", value=transfer)).transfer == NixlTransfer(bidirectional)


@pytest.mark.parametrize(
    ("timeout", "grace", "parts"),
    [
        (None, None, Ending(grace=120, drain=60, shutdown=40)),
        (None, 15, Ending(grace=15, drain=7, shutdown=5)),
        ("5s", None, Ending(grace=65, drain=5, shutdown=40)),
        ("1h", None, Ending(grace=3660, drain=3600, shutdown=40)),
        ("20.5s", 30, Ending(grace=30, drain=21, shutdown=6)),
    ],
)
def test_an_engines_end_has_three_parts_of_which_the_drain_is_the_users(
    timeout: str | None, grace: int | None, parts: Ending
) -> None:
    resource = a_resource()
    if timeout:
        resource = resource.with_spec("scaling", value={"drain": {"timeout": timeout}})
    if grace:
        resource = resource.with_overlay(Role.DECODE, {"spec": {"terminationGracePeriodSeconds": grace}})
    ending = resolved(resource).pools[Role.DECODE].ending
    assert ending == parts
    assert ending.drain is not None
    assert ending.drain < ending.grace - ending.shutdown


def test_a_scaler_gets_no_more_engines_than_one_of_vllms_connector_can_address() -> None:
    for resource, most in ((a_resource(), 1000), (a_resource().pulling(), 255)):
        scaled = resource.with_spec("decode", "autoscaling", value={})
        assert resolved(scaled).pools[Role.DECODE].sizing.most == most


def test_unless_told_otherwise_decode_works_with_four_prefill_engines_and_who_ends_hands_over() -> None:
    assert resolved(a_resource()).wiring == Wiring(peers_per_decode=4, migrate=True)


def test_the_hash_seed_may_be_given_as_it_is_anyway() -> None:
    resource = a_resource().with_spec("engine", "env", value=[{"name": "PYTHONHASHSEED", "value": "0"}])
    assert resolved(resource).environment == ()


@pytest.mark.parametrize(
    ("resource", "field", "remedy"),
    [
        (a_resource("a" * 60), "metadata.name", "choose a shorter name"),
        (
            a_resource().pulling().with_spec("transfer", "minBlocks", value=4),
            "spec.transfer.minBlocks",
            "remove the field",
        ),
        (a_resource().with_spec("transfer", value={"deadline": "0s"}), "spec.transfer.deadline", "above 0s"),
        (a_resource().with_spec("transfer", value={"deadline": "1801s"}), "spec.transfer.deadline", "at most 30m"),
        (a_resource().with_tensor(2, Role.DECODE), "spec.decode.parallelism.tensor", "Push needs equal ones"),
        (
            a_resource().with_spec("decode", "parallelism", value={"pipeline": 2}),
            "spec.decode.parallelism.pipeline",
            "raise tensor instead",
        ),
        (
            a_resource().with_spec("decode", "resources", value={"requests": {"cpu": 8}, "limits": {"cpu": "7500m"}}),
            "spec.decode.resources.requests.cpu",
            "8 is more than the limit 7500m",
        ),
        (
            a_resource().with_spec("frontDoor", "resources", value={"requests": {"cpu": "1"}, "limits": {"cpu": "1m"}}),
            "spec.frontDoor.resources.requests.cpu",
            "make it at most that",
        ),
        (a_resource().on("ml.none"), "spec.accelerator.instanceType", "choose one of"),
        (a_resource().on("p9.huge"), "spec.accelerator.instanceType", "choose one of"),
        (
            a_resource().pulling().with_tensor(3, Role.PREFILL).with_tensor(2, Role.DECODE),
            "spec.decode.parallelism.tensor",
            "one must be a multiple of the other",
        ),
        (P5EN.with_tensor(16), "spec.prefill.parallelism.tensor", "ask for fewer"),
        (
            P5EN.with_tensor(4).with_data(4),
            "spec.prefill.parallelism.data",
            "ask for fewer ranks, and for more replicas",
        ),
        (P5EN.with_data(2, Role.DECODE), "spec.decode.parallelism.data", "2 ranks of 8 GPUs are more than the 8"),
        (a_resource().pulling().with_data(2, Role.DECODE), "spec.decode.parallelism.data", "more replicas"),
        (
            a_resource().with_data(16, Role.PREFILL).with_spec("transfer", "peersPerDecode", value=16),
            "spec.transfer.peersPerDecode",
            "ask for fewer",
        ),
        (P5EN.with_spec("accelerator", "gpusPerPod", value=4), "spec.accelerator.gpusPerPod", "make them equal"),
        (a_resource().with_spec("transfer", "backend", value="LIBFABRIC"), "spec.transfer.backend", "use UCX"),
        (
            P5EN.with_spec("transfer", "backend", value="UCX").with_spec("accelerator", "efa", value={"perPod": 16}),
            "spec.transfer.backend",
            "use LIBFABRIC",
        ),
        (a_resource().on("p4d.24xlarge"), "spec.prefill.parallelism.tensor", "set spec.accelerator.efa.perPod"),
        (
            a_resource().with_spec("model", "source", value={"volume": {"claimName": "a", "hostPath": "/a"}}),
            "spec.model.source.volume",
            "exactly one",
        ),
        (
            a_resource().with_spec("decode", "env", value=[{"name": "TANDEM_ROLE", "value": "x"}]),
            "spec.decode.env[TANDEM_ROLE]",
            "remove it",
        ),
        (
            a_resource().with_spec("engine", "env", value=[{"name": "PYTHONHASHSEED", "value": "1"}]),
            "spec.engine.env[PYTHONHASHSEED]",
            "remove it",
        ),
        (
            P5EN.with_spec("accelerator", "resourceClaims", value=[{"resourceClaimName": "x"}]),
            "spec.accelerator.resourceClaims[0].name",
            "needs a name",
        ),
        (
            a_resource().with_overlay(Role.PREFILL, {"spec": {"terminationGracePeriodSeconds": 5}}),
            "spec.prefill.podTemplate.spec.terminationGracePeriodSeconds",
            "at least 15",
        ),
        (
            a_resource()
            .with_overlay(Role.DECODE, {"spec": {"terminationGracePeriodSeconds": 60}})
            .with_spec("scaling", value={"drain": {"timeout": "53s"}}),
            "spec.scaling.drain.timeout",
            "spec.decode.podTemplate.spec.terminationGracePeriodSeconds gives an engine to end",
        ),
        *(
            (
                a_resource().with_spec("scaling", value={"drain": {"timeout": timeout}}),
                "spec.scaling.drain.timeout",
                "5s to 1h",
            )
            for timeout in ("4.9s", "1h1ms")
        ),
        (
            a_resource().pulling().with_spec("scaling", value={"drain": {"migrate": True}}),
            "spec.scaling.drain",
            "remove the field",
        ),
        (a_resource().pulling().with_prefill(256), "spec.prefill.replicas", "ask for fewer"),
        *(
            (
                a_resource().pulling().with_spec("decode", "autoscaling", value={bound: 256}),
                f"spec.decode.autoscaling.{bound}",
                "ask for fewer",
            )
            for bound in ("minReplicas", "maxReplicas")
        ),
        (
            a_resource().pulling().with_spec("transfer", "peersPerDecode", value=1),
            "spec.transfer.peersPerDecode",
            "remove the field",
        ),
    ],
)
def test_a_contradiction_names_the_field_and_what_to_do(resource: ResourceBuilder, field: str, remedy: str) -> None:
    error = refused(resource)
    assert error.field == field
    assert remedy in error.remedy
    assert str(error) == f"{error.field}: {error.remedy}"
