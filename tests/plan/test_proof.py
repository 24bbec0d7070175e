# SPDX-License-Identifier: Apache-2.0
"""The conditions `FabricActive` and `KVTransferVerified`, and with whom conversations are held, from reports to status."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tandem_connector.contract.types import EngineId, Role
from tandem_operator.api.names import REVISION_LABEL, VERIFICATION_ANNOTATION
from tandem_operator.api.status import Condition, ConditionType, Reason
from tandem_operator.plan.conversation import Result, Standing
from tandem_operator.plan.outcome import outcome
from tandem_operator.plan.plan import plan
from tandem_operator.plan.pods import EnginePod, engine_pods
from tandem_operator.plan.proof import Proof, proof_of
from tandem_operator.plan.resolve import resolve
from tandem_operator.plan.target import SOON_SECONDS, SOON_TRIES, Target, is_news, next_after, report_of
from tandem_operator.plan.types import Observed, Outcome
from tandem_operator.plan.verification import Fabric, Report
from tests.builders import DEFAULTS, TEMPLATE, a_ready_pod, a_resource, carried_out, observed
from tests.builders.resources import ResourceBuilder
from tests.plan.made import template

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
P, D = Role.PREFILL, Role.DECODE
SHOWN = Result(Standing.SHOWN, Reason.VERIFIED)
TCP = Fabric(backend="UCX", provider="", devices=0)
EFA = Fabric(backend="LIBFABRIC", provider="efa", devices=16)


def scene(resource: ResourceBuilder | None = None, *, prefills: int = 1, decodes: int = 1) -> Observed:
    """Ready engines that know each other."""
    resource = (resource or a_resource()).with_prefill(prefills).with_decode(decodes)
    revision = template(resource)["metadata"]["labels"][REVISION_LABEL]
    pods = [
        a_ready_pod(role, number).of_revision(revision).of_template(TEMPLATE)
        for role, count in ((P, prefills), (D, decodes))
        for number in range(count)
    ]
    seen = observed(resource, pods)
    return carried_out(seen, plan(seen, DEFAULTS))


def reported(seen: Observed, *reports: Report) -> Observed:
    """After a reconcile that has heard these."""
    told = replace(seen, reports=reports)
    return replace(carried_out(told, plan(told, DEFAULTS)), reports=())


def pods_of(seen: Observed) -> dict[str, EnginePod]:
    return {pod.name: pod for pod in engine_pods(seen)}


def engine(seen: Observed, name: str) -> EngineId:
    peer = pods_of(seen)[name].peer
    assert peer is not None
    return peer.engine


def a_report(
    seen: Observed, decode: str, results: Mapping[str, Result], fabrics: Mapping[str, Fabric] | None = None
) -> Report:
    """Of a conversation with a decode pod: results by the prefill pod's name, fabrics by pods' names."""
    pods = pods_of(seen)
    return Report(
        engines={pod.uid: engine(seen, name) for name, pod in pods.items()},
        decode=pods[decode].uid,
        results={engine(seen, name) if name else "": result for name, result in results.items()},
        fabrics={pods[name].uid: fabric for name, fabric in (fabrics or {}).items()},
    )


def failed(reason: Reason = Reason.WRONG_OUTPUT, detail: str = "why") -> Result:
    return Result(Standing.FAILED, reason, detail)


def found(seen: Observed) -> Outcome:
    return outcome(seen, DEFAULTS, NOON)


def condition(seen: Observed, kind: ConditionType) -> Condition:
    (match,) = [each for each in found(seen).status.conditions if each.type == kind]
    return match


def verified(seen: Observed) -> tuple[str, str]:
    told = condition(seen, ConditionType.KV_TRANSFER_VERIFIED)
    return told.status, told.reason


def fabric(seen: Observed) -> tuple[str, str]:
    told = condition(seen, ConditionType.FABRIC_ACTIVE)
    return told.status, told.reason


def proof(seen: Observed) -> Proof:
    return proof_of(resolve(seen.resource, DEFAULTS), engine_pods(seen))


def test_nothing_is_known_before_the_first_conversation() -> None:
    seen = scene()
    assert verified(seen) == ("Unknown", "NotVerifiedYet")
    assert fabric(seen) == ("Unknown", "FabricNotReported")
    assert proof(seen) is Proof.OPEN


def test_a_conversation_that_showed_all_verifies_and_says_over_what() -> None:
    seen = scene()
    seen = reported(seen, a_report(seen, "qwen-decode-0", {"qwen-prefill-0": SHOWN}, {"qwen-decode-0": TCP}))
    assert verified(seen) == ("True", "Verified")
    assert "1 of 1 pairs" in condition(seen, ConditionType.KV_TRANSFER_VERIFIED).message
    assert fabric(seen) == ("True", "FabricAsAsked")
    assert "EFA is not asked for" in condition(seen, ConditionType.FABRIC_ACTIVE).message
    assert proof(seen) is Proof.SHOWN


def test_what_is_known_survives_the_operator_and_not_the_engines_process() -> None:
    seen = scene()
    seen = reported(seen, a_report(seen, "qwen-decode-0", {"qwen-prefill-0": SHOWN}))
    assert not plan(seen, DEFAULTS).pod_patches
    restarted = [pod for pod in seen.pods if pod["metadata"]["name"] == "qwen-decode-0"]
    restarted[0]["status"]["containerStatuses"][0]["restartCount"] = 1
    assert verified(reported(seen)) == ("Unknown", "NotVerifiedYet")


@pytest.mark.parametrize(
    ("reason", "believed_after"),
    [
        (Reason.WRONG_OUTPUT, 1),
        (Reason.VERSION_MISMATCH, 1),
        (Reason.NOTHING_MOVED, 2),
        (Reason.NOTHING_MOVED_BACK, 3),
        (Reason.NO_PEER, 2),
        (Reason.TIMEOUT, 2),
        (Reason.ENGINE_UNREACHABLE, 2),
    ],
)
def test_a_pair_that_fails_turns_the_condition_false_and_names_the_pair(reason: Reason, believed_after: int) -> None:
    seen = scene()
    seen = reported(seen, a_report(seen, "qwen-decode-0", {"qwen-prefill-0": SHOWN}))
    for number in range(1, believed_after + 1):
        seen = reported(seen, a_report(seen, "qwen-decode-0", {"qwen-prefill-0": failed(reason, "the words")}))
        assert (verified(seen)[0] == "False") == (number == believed_after)
    told = condition(seen, ConditionType.KV_TRANSFER_VERIFIED)
    assert told.reason == reason
    assert told.message.startswith("qwen-decode-0 with qwen-prefill-0: the words")
    assert proof(seen) is Proof.FAILING
    assert (reason, True) in [(event.reason, event.warning) for event in found(seen).events]


def test_one_pair_that_fails_counts_more_than_others_that_do_not() -> None:
    seen = scene(prefills=2)
    results = {"qwen-prefill-0": SHOWN, "qwen-prefill-1": failed()}
    seen = reported(seen, a_report(seen, "qwen-decode-0", results))
    assert verified(seen) == ("False", "WrongOutput")
    assert condition(seen, ConditionType.KV_TRANSFER_VERIFIED).message.endswith(
        "1 of 2 pairs have shown that KV moves both ways and answers are right"
    )


def test_a_revision_is_shown_when_each_of_its_decode_engines_is() -> None:
    seen = scene(decodes=2)
    seen = reported(seen, a_report(seen, "qwen-decode-0", {"qwen-prefill-0": SHOWN}))
    assert (proof(seen), verified(seen)[0]) == (Proof.OPEN, "True")
    seen = reported(seen, a_report(seen, "qwen-decode-1", {"qwen-prefill-0": SHOWN}))
    assert proof(seen) is Proof.SHOWN


@pytest.mark.parametrize(
    ("used", "reason", "remedy"),
    [
        (Fabric(backend="UCX", provider="", devices=16), "WrongBackend", "set spec.transfer.backend to UCX"),
        (Fabric(backend="LIBFABRIC", provider="", devices=16), "TcpFallback", "FI_PROVIDER is not set"),
        (
            Fabric(backend="LIBFABRIC", provider="tcp", devices=16),
            "TcpFallback",
            "remove FI_PROVIDER from spec.engine.env",
        ),
        (Fabric(backend="LIBFABRIC", provider="efa", devices=15), "DevicesMissing", "15 of 16 EFA devices"),
    ],
)
def test_an_engine_that_uses_less_than_was_asked_for_turns_both_conditions_false(
    used: Fabric, reason: str, remedy: str
) -> None:
    seen = scene(a_resource().on("p5en.48xlarge").with_tensor(8))
    conversation = a_report(
        seen, "qwen-decode-0", {"qwen-prefill-0": SHOWN}, {"qwen-decode-0": EFA, "qwen-prefill-0": used}
    )
    seen = reported(seen, conversation)
    assert fabric(seen) == verified(seen) == ("False", reason)
    assert remedy in condition(seen, ConditionType.FABRIC_ACTIVE).message
    assert proof(seen) is Proof.FAILING


def test_engines_with_all_efa_devices_are_as_asked() -> None:
    seen = scene(a_resource().on("p5en.48xlarge").with_tensor(8))
    seen = reported(seen, a_report(seen, "qwen-decode-0", {}, {"qwen-decode-0": EFA, "qwen-prefill-0": EFA}))
    assert fabric(seen) == ("True", "FabricAsAsked")


def test_engines_that_ask_for_a_key_leave_it_open_with_the_way_out() -> None:
    seen = scene()
    asked = Result(Standing.OPEN, Reason.KEY_REQUIRED, "decode asks for an API key")
    seen = reported(seen, a_report(seen, "qwen-decode-0", {"": asked}))
    assert verified(seen) == ("Unknown", "KeyRequired")
    assert "spec.verification.enabled" in condition(seen, ConditionType.KV_TRANSFER_VERIFIED).message
    assert proof(seen) is Proof.UNKNOWABLE


@pytest.mark.parametrize(
    ("resource", "reason"),
    [
        (a_resource().with_spec("verification", "enabled", value=False), "VerificationOff"),
        (a_resource().pulling(), "NotWithNixlPull"),
    ],
)
def test_where_nothing_can_be_shown_the_conditions_say_so_and_nobody_is_asked(
    resource: ResourceBuilder, reason: str
) -> None:
    seen = scene(resource)
    assert verified(seen) == fabric(seen) == ("Unknown", reason)
    assert proof(seen) is Proof.UNKNOWABLE
    assert found(seen).targets == ()


def test_that_nothing_is_known_is_no_event() -> None:
    assert {event.reason for event in found(scene()).events}.isdisjoint({"NotVerifiedYet", "FabricNotReported"})


# -- with whom conversations are held


def the_target(seen: Observed) -> Target:
    (target,) = found(seen).targets
    return target


def test_decode_engines_that_have_somebody_to_ask_are_conversed_with() -> None:
    seen = scene(prefills=2)
    target = the_target(seen)
    assert (target.place.host, target.place.port, target.model) == ("10.0.0.101", 8000, "Qwen3-32B")
    assert sorted(place.host for place in target.prefills.values()) == ["10.0.0.1", "10.0.0.2"]
    assert target.period == 600
    assert found(scene(prefills=0)).targets == ()


def test_conversations_come_soon_until_each_pair_has_shown_something_but_not_for_ever() -> None:
    seen = scene(prefills=2)
    assert next_after(the_target(seen), 1) == SOON_SECONDS
    assert next_after(the_target(seen), SOON_TRIES) == 600
    seen = reported(seen, a_report(seen, "qwen-decode-0", {"qwen-prefill-0": SHOWN}))
    assert next_after(the_target(seen), 1) == SOON_SECONDS
    seen = reported(seen, a_report(seen, "qwen-decode-0", {"qwen-prefill-1": SHOWN}))
    assert next_after(the_target(seen), 1) == 600
    seen = reported(seen, a_report(seen, "qwen-decode-0", {"qwen-prefill-1": failed()}))
    assert next_after(the_target(seen), 1) == SOON_SECONDS


def test_a_failure_is_tried_again_soon_also_before_it_is_written_down() -> None:
    seen = scene()
    well = the_target(reported(seen, a_report(seen, "qwen-decode-0", {"qwen-prefill-0": SHOWN})))
    assert (well.settled, next_after(well, 0, Standing.SHOWN)) == (True, 600)
    assert next_after(well, 1, Standing.FAILED) == SOON_SECONDS
    assert next_after(well, SOON_TRIES, Standing.FAILED) == 600


def test_the_period_is_the_specs() -> None:
    assert the_target(scene(a_resource().with_spec("verification", "period", value="1m"))).period == 60


def test_an_engines_word_is_believed_of_its_peers_only_and_by_their_pods() -> None:
    seen = scene()
    target = the_target(seen)
    (uid,) = target.prefills
    report = report_of(target, {f"{uid}-as.it.names.itself": SHOWN, "stranger-1": failed()}, {})
    assert report.results == {engine(seen, "qwen-prefill-0"): SHOWN}


def test_a_report_that_says_what_is_known_is_no_news() -> None:
    seen = scene()
    conversation = a_report(seen, "qwen-decode-0", {"qwen-prefill-0": SHOWN}, {"qwen-decode-0": TCP})
    assert is_news(the_target(seen), conversation)
    seen = reported(seen, conversation)
    target = the_target(seen)
    assert not is_news(target, conversation)
    assert is_news(target, a_report(seen, "qwen-decode-0", {"qwen-prefill-0": failed()}))
    assert is_news(target, a_report(seen, "qwen-decode-0", {}, {"qwen-prefill-0": TCP}))


def test_the_same_failure_again_and_again_is_no_news_when_it_has_been_counted_often_enough() -> None:
    seen = scene()
    for _ in range(3):
        again = a_report(seen, "qwen-decode-0", {"qwen-prefill-0": failed()})
        assert is_news(the_target(seen), again)
        seen = reported(seen, again)
    assert not is_news(the_target(seen), again)
    assert is_news(the_target(seen), a_report(seen, "qwen-decode-0", {"qwen-prefill-0": failed(Reason.TIMEOUT)}))


def test_that_decode_does_not_fail_by_itself_any_more_is_news() -> None:
    seen = scene()
    seen = reported(seen, a_report(seen, "qwen-decode-0", {"": failed(), "qwen-prefill-0": SHOWN}))
    assert is_news(the_target(seen), a_report(seen, "qwen-decode-0", {"qwen-prefill-0": SHOWN}))


def test_pods_carry_what_is_known_of_them() -> None:
    seen = scene()
    seen = reported(seen, a_report(seen, "qwen-decode-0", {"qwen-prefill-0": SHOWN}, {"qwen-prefill-0": TCP}))
    told: dict[str, Any] = {pod["metadata"]["name"]: pod["metadata"]["annotations"] for pod in seen.pods}
    assert '"standing":"shown"' in told["qwen-decode-0"][VERIFICATION_ANNOTATION]
    assert '"backend":"UCX"' in told["qwen-prefill-0"][VERIFICATION_ANNOTATION]
