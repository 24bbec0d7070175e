# SPDX-License-Identifier: Apache-2.0
"""Who is taken out of use, when it is restarted, and when that ends."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from tandem_connector.contract.types import Role
from tandem_operator.api.names import VERIFICATION_ANNOTATION
from tandem_operator.api.status import ConditionType, Quarantined, Reason, Status
from tandem_operator.api.verification import Verification
from tandem_operator.plan.conversation import Standing
from tandem_operator.plan.outcome import outcome
from tandem_operator.plan.plan import plan
from tandem_operator.plan.pods import EnginePod, engine_pods
from tandem_operator.plan.quarantine import (
    FIRST_PAUSE,
    LONGEST_PAUSE,
    MOST_RESTARTS,
    REMEMBERED,
    SHARE,
    held_in,
    quarantined,
    to_restart,
)
from tandem_operator.plan.sets import engine_sets
from tandem_operator.plan.types import Observed, Outcome
from tandem_operator.plan.verification import ENOUGH_FAILURES, PairRecord, Record
from tests.builders import DEFAULTS, carried_out
from tests.builders.pods import PodBuilder
from tests.plan.test_proof import NOON, SHOWN, a_report, condition, failed, reported, scene, verified

P, D = Role.PREFILL, Role.DECODE
WORKS = PairRecord(standing=Standing.SHOWN, reason=Reason.VERIFIED)
FAILS = PairRecord(standing=Standing.FAILED, reason=Reason.WRONG_OUTPUT, failures=ENOUGH_FAILURES, detail="why")
Pairs = Mapping[tuple[int, int], PairRecord]
"""By the numbers of the prefill and the decode engine; prefill -1: of decode by itself."""

SETS = engine_sets(scene(prefills=5, decodes=5))
"""Which make as many as there may be."""


def engines(prefills: int, decodes: int, pairs: Pairs) -> list[EnginePod]:
    """Engines that all know each other, and what is known of their pairs."""
    pods = {pod.name: pod for pod in engine_pods(scene(prefills=prefills, decodes=decodes))}
    for number in range(decodes):
        decode = pods[f"qwen-decode-{number}"]
        assert decode.peer is not None
        known = {}
        for (prefill, of), record in pairs.items():
            peer = pods[f"qwen-prefill-{prefill}"].peer if prefill >= 0 else None
            if of == number:
                known[peer.engine if peer else ""] = record
        kept = Record(engine=decode.peer.engine, pairs=known).to_annotation()
        annotations = {**decode.annotations, VERIFICATION_ANNOTATION: kept}
        pods[decode.name] = replace(decode, annotations=annotations)
    return list(pods.values())


def held(entries: Sequence[Quarantined]) -> list[str]:
    return [entry.pod for entry in entries if entry.uid]


def decided(prefills: int, decodes: int, pairs: Pairs) -> list[str]:
    return held(quarantined((), engines(prefills, decodes, pairs), SETS, NOON))


def test_a_prefill_engine_that_fails_with_all_while_another_works_is_held() -> None:
    assert decided(2, 2, {(0, 0): FAILS, (0, 1): FAILS, (1, 0): WORKS, (1, 1): WORKS}) == ["qwen-prefill-0"]


def test_a_decode_engine_that_fails_with_all_while_another_works_is_held() -> None:
    assert decided(2, 2, {(0, 0): FAILS, (1, 0): FAILS, (0, 1): WORKS, (1, 1): WORKS}) == ["qwen-decode-0"]


def test_decode_that_fails_by_itself_is_held_whatever_its_pairs_once_showed() -> None:
    assert decided(1, 2, {(-1, 0): FAILS, (0, 0): WORKS, (0, 1): WORKS}) == ["qwen-decode-0"]


def test_an_engine_with_one_pair_that_works_is_not() -> None:
    assert decided(2, 2, {(0, 0): FAILS, (0, 1): WORKS, (1, 0): WORKS, (1, 1): WORKS}) == []


def test_when_all_fail_nobody_is() -> None:
    assert decided(2, 2, {(0, 0): FAILS, (0, 1): FAILS, (1, 0): FAILS, (1, 1): FAILS}) == []


def test_the_only_engine_of_a_role_is_not() -> None:
    assert decided(1, 1, {(0, 0): FAILS}) == []


def test_failures_that_may_pass_are_waited_for() -> None:
    few = FAILS.model_copy(update={"failures": ENOUGH_FAILURES - 1})
    assert decided(2, 1, {(0, 0): few, (1, 0): WORKS}) == []


def test_prefill_without_room_for_what_decode_offers_is_well() -> None:
    nothing_back = FAILS.model_copy(update={"reason": Reason.NOTHING_MOVED_BACK})
    assert decided(2, 1, {(0, 0): nothing_back, (1, 0): WORKS}) == []


def test_of_two_that_fail_with_each_other_one_is_held() -> None:
    assert decided(2, 2, {(0, 0): FAILS, (1, 1): WORKS}) == ["qwen-prefill-0"]


_RECORDS = st.sampled_from([WORKS, FAILS])


@st.composite
def _fleets(draw: st.DrawFn) -> list[EnginePod]:
    prefills, decodes = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    possible = st.tuples(st.integers(-1, prefills - 1), st.integers(0, decodes - 1))
    return engines(prefills, decodes, draw(st.dictionaries(possible, _RECORDS, max_size=12)))


@given(st.lists(_fleets(), min_size=1, max_size=4), st.integers(0, 4000))
def test_never_more_than_the_share_is_held_and_of_each_role_somebody_works_on(
    rounds: list[list[EnginePod]], seconds: int
) -> None:
    entries: tuple[Quarantined, ...] = ()
    now = NOON
    for pods in rounds:
        before = held_in(entries)
        entries = quarantined(entries, pods, SETS, now)
        now += timedelta(seconds=seconds)
        for role in Role:
            of_role = [pod for pod in pods if pod.role is role]
            newly = [pod for pod in of_role if pod.uid in held_in(entries) - before]
            if newly:
                all_held = [entry for entry in entries if entry.uid and entry.role == role]
                assert len(all_held) <= max(1, int(len(of_role) * SHARE))
                assert any(pod.uid not in held_in(entries) for pod in of_role)


@given(_fleets())
def test_deciding_again_changes_nothing_and_order_does_not_matter(pods: list[EnginePod]) -> None:
    entries = quarantined((), pods, SETS, NOON)
    assert quarantined(entries, pods, SETS, NOON) == entries
    assert quarantined((), pods[::-1], SETS, NOON) == entries


# -- through reconciles


def keeps_failing(seen: Observed, prefill: str = "qwen-prefill-1") -> Observed:
    """Until one prefill engine is held, the other works."""
    for _ in range(ENOUGH_FAILURES):
        report = a_report(seen, "qwen-decode-0", {"qwen-prefill-0": SHOWN, prefill: failed()})
        seen = reported(seen, report)
    return seen


def noted(seen: Observed, now: datetime) -> tuple[Observed, Outcome]:
    """With the status that follows."""
    found = outcome(replace(seen, at=now), DEFAULTS, now)
    return replace(seen, at=now, resource=seen.resource.model_copy(update={"status": found.status})), found


def quarantine_of(seen: Observed) -> tuple[Quarantined, ...]:
    assert seen.resource.status is not None
    return seen.resource.status.quarantined


def again(seen: Observed, now: datetime) -> Observed:
    """After one more reconcile."""
    seen = replace(seen, at=now)
    return carried_out(seen, plan(seen, DEFAULTS))


def test_whoever_is_held_leaves_tables_and_front_door_at_once_and_an_event_says_why() -> None:
    seen, found = noted(keeps_failing(scene(prefills=2)), NOON)
    assert (found.events[0].reason, found.events[0].warning) == (Reason.QUARANTINED, True)
    assert (
        "its pairs keep failing while others work (WrongOutput: why); it is restarted at 2026-01-01T12:00:30Z"
        in found.events[0].message
    )
    assert found.again is not None
    assert found.again < timedelta(seconds=1)
    seen = again(seen, NOON)
    pods = {pod.name: pod for pod in engine_pods(seen)}
    assert pods["qwen-prefill-1"].table is not None
    assert pods["qwen-prefill-1"].table.peers == ()
    assert not pods["qwen-prefill-1"].labelled_routable
    table = pods["qwen-decode-0"].table
    assert table is not None
    assert [peer.pod for peer in table.peers] == ["qwen-prefill-0"]
    assert verified(seen) == ("True", "Verified")
    told = condition(seen, ConditionType.DEGRADED)
    assert (told.status, told.reason) == ("True", "Quarantined")


def test_its_pod_is_evicted_when_its_pause_is_over_and_not_before() -> None:
    seen, _ = noted(keeps_failing(scene(prefills=2)), NOON)
    assert not plan(replace(seen, at=NOON + FIRST_PAUSE - timedelta(seconds=1)), DEFAULTS).evictions
    (evicted,) = plan(replace(seen, at=NOON + FIRST_PAUSE), DEFAULTS).evictions
    assert evicted.name == "qwen-prefill-1"


def replaced(seen: Observed, name: str, uid: str) -> Observed:
    """The pod was deleted, and another one of its name is ready."""
    pods = []
    for pod in seen.pods:
        if pod["metadata"]["name"] != name:
            pods.append(pod)
            continue
        manifest = PodBuilder(dict(pod)).patched({}, {}).build()
        manifest["metadata"]["uid"] = uid
        pods.append(manifest)
    return replace(seen, pods=tuple(pods))


def test_each_restart_comes_later_and_after_the_last_one_it_stays() -> None:
    seen, now, pauses = scene(prefills=2), NOON, []
    for number in range(MOST_RESTARTS + 1):
        seen, _ = noted(keeps_failing(seen), now)
        seen = again(seen, now)
        (entry,) = quarantine_of(seen)
        assert entry.restarts == number
        if number == MOST_RESTARTS:
            assert entry.restart_at is None
            assert "5 restarts did not help" in condition(seen, ConditionType.DEGRADED).message
            assert not plan(replace(seen, at=now + timedelta(days=1)), DEFAULTS).evictions
            break
        assert entry.restart_at is not None
        pause = datetime.fromisoformat(entry.restart_at) - now
        pauses.append(pause)
        now += pause
        seen, found = noted(replaced(seen, "qwen-prefill-1", f"uid-{number}"), now)
        assert [event.reason for event in found.events][:1] == [Reason.RESTARTED]
        seen = again(seen, now)
    assert pauses == [min(FIRST_PAUSE * 2**number, LONGEST_PAUSE) for number in range(MOST_RESTARTS)]


def test_a_restarted_engine_is_used_and_forgiven_when_it_has_worked_for_an_hour() -> None:
    seen, _ = noted(keeps_failing(scene(prefills=2)), NOON)
    seen = again(seen, NOON)
    seen, _ = noted(replaced(seen, "qwen-prefill-1", "uid-2"), NOON)
    seen = again(seen, NOON)
    seen = reported(seen, a_report(seen, "qwen-decode-0", {"qwen-prefill-1": SHOWN}))
    almost, _ = noted(seen, NOON + REMEMBERED - timedelta(seconds=1))
    assert [entry.restarts for entry in quarantine_of(almost)] == [1]
    forgiven, _ = noted(seen, NOON + REMEMBERED)
    assert quarantine_of(forgiven) == ()


def without(seen: Observed, name: str) -> Observed:
    """The pod has ended."""
    return replace(seen, pods=tuple(pod for pod in seen.pods if pod["metadata"]["name"] != name))


def test_whoever_is_being_made_anew_is_known_until_it_is_there_however_long_that_takes() -> None:
    seen, _ = noted(keeps_failing(scene(prefills=2)), NOON)
    seen, _ = noted(without(seen, "qwen-prefill-1"), NOON + 2 * REMEMBERED)
    assert [entry.pod for entry in quarantine_of(seen)] == ["qwen-prefill-1"]
    assert condition(seen, ConditionType.DEGRADED).reason == "Quarantined"


def test_whoever_is_scaled_away_is_forgotten_and_degrades_nothing_any_more() -> None:
    seen, _ = noted(keeps_failing(scene(prefills=2)), NOON)
    fewer = seen.resource.spec.model_copy(
        update={"prefill": seen.resource.spec.prefill.model_copy(update={"replicas": 1})}
    )
    seen = again(replace(seen, resource=seen.resource.model_copy(update={"spec": fewer})), NOON)
    seen, _ = noted(seen, NOON)
    assert held(quarantine_of(seen)) == ["qwen-prefill-1"], "its pod hasn't ended"

    seen, found = noted(without(seen, "qwen-prefill-1"), NOON)

    assert quarantine_of(seen) == ()
    assert condition(seen, ConditionType.DEGRADED).status == "False"
    assert Reason.RESTARTED not in {event.reason for event in found.events}


def test_the_next_operator_goes_on_where_the_last_one_stopped() -> None:
    seen, _ = noted(keeps_failing(scene(prefills=2)), NOON)
    assert seen.resource.status is not None
    stored = Status.model_validate(seen.resource.status.model_dump(mode="json", by_alias=True, exclude_none=True))
    assert to_restart(stored.quarantined, engine_pods(seen), NOON + FIRST_PAUSE)


def test_without_verification_nobody_is_held() -> None:
    seen, _ = noted(keeps_failing(scene(prefills=2)), NOON)
    spec = seen.resource.spec.model_copy(update={"verification": Verification(enabled=False)})
    off = replace(seen, resource=seen.resource.model_copy(update={"spec": spec}))
    found = outcome(off, DEFAULTS, datetime(2026, 1, 1, 13, tzinfo=UTC))
    assert found.status.quarantined == ()
