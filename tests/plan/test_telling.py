# SPDX-License-Identifier: Apache-2.0
"""Pods whose table changes twice within seconds are written once more afterwards, and never otherwise."""

from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem_connector.contract.types import Role
from tandem_operator.api.names import PEERS_ANNOTATION, REVISION_LABEL, TELL_AGAIN_ANNOTATION, TOLD_ANNOTATION
from tandem_operator.plan.errors import InvalidSpec
from tandem_operator.plan.outcome import AGAIN_AFTER_REFUSAL, outcome
from tandem_operator.plan.pods import engine_pods
from tandem_operator.plan.telling import SOON, next_repetition
from tandem_operator.plan.types import ObjectKey, Observed, Refusal
from tests.builders import DEFAULTS, a_ready_pod, a_resource, observed
from tests.builders.pods import PodBuilder
from tests.builders.surroundings import NOW
from tests.plan.made import template
from tests.plan.rounds import D, P, Round, current, name

SECOND = timedelta(seconds=1)
PREFILL, DECODE = current(P), current(D)
UNREADY = PREFILL.with_condition("Ready", "False")


def annotations(scene: Round, pod: PodBuilder) -> dict[str, str]:
    found: dict[str, str] = scene.pods[name(pod)].build()["metadata"]["annotations"]
    return found


def awaits(scene: Round, pod: PodBuilder = DECODE) -> bool:
    """Whether the pod is to be written again."""
    return TELL_AGAIN_ANNOTATION in annotations(scene, pod)


def again(scene: Round) -> timedelta | None:
    """When the next repetition is due."""
    return next_repetition(engine_pods(seen(scene)), scene.at)


def seen(scene: Round, **more: Any) -> Observed:
    return observed(scene.resource, scene.pods.values(), at=scene.at, **more)


def long_settled() -> Round:
    return replace(Round.of(PREFILL, DECODE), at=NOW + timedelta(hours=1)).settled()


def changed_twice(between: timedelta = SECOND) -> Round:
    first = long_settled().then(UNREADY)
    return first.then(PREFILL, at=first.at + between)


def test_a_change_after_a_long_time_is_written_once() -> None:
    scene = long_settled().then(UNREADY)
    assert scene.patched == {name(DECODE)}
    assert not awaits(scene)
    assert replace(scene, at=scene.at + 2 * SOON).settled().patched == frozenset()


def test_the_second_of_two_changes_within_seconds_is_followed_by_one_more_write_that_says_the_same() -> None:
    scene = changed_twice()
    assert name(DECODE) in scene.patched
    assert awaits(scene)
    assert replace(scene, at=scene.at + SOON - SECOND).settled().patched == frozenset()
    told = replace(scene, at=scene.at + SOON).settled()
    assert told.patched == {name(DECODE)}
    assert not awaits(told)
    assert annotations(told, DECODE)[PEERS_ANNOTATION] == annotations(scene, DECODE)[PEERS_ANNOTATION]
    assert replace(told, at=told.at + SOON).settled().patched == frozenset()


def test_changes_that_are_further_apart_are_not_repeated() -> None:
    assert not awaits(changed_twice(between=SOON))


def test_the_next_look_is_when_a_repetition_is_due_and_no_other_is_asked_for() -> None:
    scene = changed_twice()
    assert again(scene) == SOON
    assert again(replace(scene, at=scene.at + 2 * SECOND)) == SOON - 2 * SECOND
    assert again(replace(scene, at=scene.at + SOON).settled()) is None


def test_a_resource_is_looked_at_when_a_repetition_is_due_if_that_can_be_made() -> None:
    scene = changed_twice()
    assert outcome(seen(scene), DEFAULTS, scene.at).again == SOON
    late = scene.at + SOON + SECOND
    assert outcome(seen(scene), DEFAULTS, late).again == SECOND, "what could not be written keeps nobody busy"
    refusal = Refusal(ObjectKey("v1", "Pod", name(DECODE)), immutable=False, message="no")
    assert outcome(seen(scene, refusals=(refusal,)), DEFAULTS, late).again == AGAIN_AFTER_REFUSAL
    problem = InvalidSpec("spec.decode.podTemplate.spec", "must be a map")
    assert outcome(seen(scene), DEFAULTS, late, problem).again is None


@pytest.mark.parametrize(
    "pod",
    [
        PREFILL.terminating(),
        PREFILL.with_container(state={"waiting": {"reason": "CrashLoopBackOff"}}),
    ],
    ids=["ends", "has no process"],
)
def test_a_pod_whose_kubelet_shows_it_nothing_or_all_anyway_is_not_written_again(pod: PodBuilder) -> None:
    scene = long_settled().then(DECODE.with_condition("Ready", "False"))
    scene = scene.then(pod, DECODE, at=scene.at + SECOND)
    assert name(PREFILL) in scene.patched
    assert not awaits(scene, PREFILL)


def test_engines_that_read_no_tables_are_not_written_again() -> None:
    pulling = a_resource().pulling()
    revision = template(pulling)["metadata"]["labels"][REVISION_LABEL]
    pods = [a_ready_pod(role).of_revision(revision).listening_on(5600) for role in Role]
    scene = Round.of(*pods, resource=pulling)
    scene = scene.then(pods[0].with_condition("Ready", "False"), at=scene.at + SECOND)
    assert scene.patched
    assert not any(awaits(scene, pod) for pod in pods)


def test_a_pod_that_is_over_asks_for_no_look() -> None:
    scene = changed_twice()
    over = DECODE.terminating().with_container(state={"terminated": {"exitCode": 0}})
    scene = scene.then(over, at=scene.at + SECOND)
    assert awaits(scene), "it is left as it was"
    assert again(scene) is None


@pytest.mark.parametrize(
    ("annotation", "value", "patched"),
    [
        (TELL_AGAIN_ANNOTATION, "soon", True),
        (TELL_AGAIN_ANNOTATION, "2026-01-01T13:00:03", True),
        (TELL_AGAIN_ANNOTATION, "2027-01-01T00:00:00+00:00", True),
        (TOLD_ANNOTATION, "long ago", False),
        (TOLD_ANNOTATION, "2027-01-01T00:00:00+00:00", False),
    ],
)
def test_times_that_make_no_sense_cost_one_write_at_most(annotation: str, value: str, patched: bool) -> None:
    scene = long_settled()
    odd = scene.pods[name(DECODE)].build()
    odd["metadata"]["annotations"][annotation] = value
    scene = replace(scene, pods={**scene.pods, name(DECODE): PodBuilder(odd)}).settled()
    assert bool(scene.patched) is patched
    assert scene.settled().patched == frozenset()
    assert again(scene) is None


STEPS = st.lists(st.tuples(st.booleans(), st.floats(0, 12)), max_size=8)


@given(steps=STEPS)
@settings(deadline=None, max_examples=40)
def test_a_burst_of_changes_costs_one_more_write_and_changes_that_are_apart_none(
    steps: list[tuple[bool, float]],
) -> None:
    """Looks come when something happens and when they were asked for, as in the operator."""
    changes: list[datetime] = []
    repetitions: list[datetime] = []

    def noted(before: Round, after: Round) -> Round:
        if name(DECODE) in after.patched:
            says_more = annotations(after, DECODE)[PEERS_ANNOTATION] != annotations(before, DECODE)[PEERS_ANNOTATION]
            (changes if says_more else repetitions).append(after.at)
        return after

    def waited(scene: Round, until: datetime) -> Round:
        while (asked := again(scene)) is not None and scene.at + asked <= until:
            scene = noted(scene, replace(scene, at=scene.at + asked).settled())
        return replace(scene, at=until)

    scene = long_settled()
    for ready, seconds in steps:
        scene = waited(scene, scene.at + timedelta(seconds=seconds))
        scene = noted(scene, scene.then(PREFILL if ready else UNREADY))
    scene = waited(scene, scene.at + timedelta(hours=1))
    assert (again(scene), awaits(scene)) == (None, False)
    apart = [second - first.replace(microsecond=0) >= SOON for first, second in pairwise(changes)]
    ends_of_bursts = [is_last for in_burst, is_last in pairwise((True, *apart, True)) if not in_burst and is_last]
    assert len(repetitions) == len(ends_of_bursts)
