# SPDX-License-Identifier: Apache-2.0
"""Verification that somebody asks for: what is due, what is answered, and what is left of it after anything in between."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem_operator.api.names import VERIFICATION_ANNOTATION, VERIFY_ANNOTATION
from tandem_operator.api.resource import DisaggregatedInference
from tandem_operator.api.status import Reason, RequestedVerification, RequestState
from tandem_operator.plan.conversation import Result, Standing
from tandem_operator.plan.errors import InvalidSpec
from tandem_operator.plan.outcome import outcome
from tandem_operator.plan.plan import plan
from tandem_operator.plan.requests import LONGEST, LONGEST_EACH
from tandem_operator.plan.target import AT_ONCE_SECONDS, SOON_SECONDS, SOON_TRIES, is_news, next_after
from tandem_operator.plan.types import Observed, Outcome
from tandem_operator.plan.verification import Report
from tests.builders import DEFAULTS, a_resource, carried_out
from tests.builders.resources import ResourceBuilder
from tests.plan.test_proof import NOON, SHOWN, a_report, failed, reported, scene

ONE, TWO = "2026-01-01T12:00:00.000001Z", "2026-01-01T12:00:00.000002Z"
KEY = Result(Standing.OPEN, Reason.KEY_REQUIRED, "decode asks for an API key")
D0, P0, P1 = "qwen-decode-0", "qwen-prefill-0", "qwen-prefill-1"


class Operator:
    """Looks at one resource again and again, and keeps nothing but what is stored in the cluster."""

    def __init__(self, resource: ResourceBuilder | None = None, *, prefills: int = 1, decodes: int = 1) -> None:
        self.seen = scene(resource, prefills=prefills, decodes=decodes)
        self.now = NOON
        self.look()

    def ask(self, value: str | None) -> Outcome:
        annotations = {} if value is None else {VERIFY_ANNOTATION: value}
        self._resource(metadata=self.seen.resource.metadata.model_copy(update={"annotations": annotations}))
        return self.look()

    def look(self, *reports: Report) -> Outcome:
        self.seen = reported(self.seen, *reports)
        found = outcome(self.seen, DEFAULTS, self.now)
        self._resource(status=found.status)
        return found

    def converse(self, results: dict[str, Result], request: str, decode: str = D0) -> Outcome:
        return self.look(replace(a_report(self.seen, decode, results), request=request))

    def wait(self, time: timedelta) -> Outcome:
        self.now += time
        return self.look()

    @property
    def answer(self) -> RequestedVerification | None:
        return self.seen.resource.status.verification if self.seen.resource.status else None

    def _resource(self, **changes: Any) -> None:
        # As the API server stores it.
        stored = self.seen.resource.model_copy(update=changes).model_dump(mode="json", by_alias=True, exclude_none=True)
        self.seen = replace(self.seen, resource=DisaggregatedInference.model_validate(stored))


def told(operator: Operator) -> tuple[RequestState, int, int, int]:
    assert operator.answer is not None
    return operator.answer.state, operator.answer.pairs, operator.answer.shown, operator.answer.failed


def due(found: Outcome) -> list[str]:
    return [target.request for target in found.targets]


def test_nobody_is_conversed_with_out_of_turn_before_somebody_asks() -> None:
    operator = Operator(decodes=2)
    assert due(operator.look()) == ["", ""]
    assert operator.answer is None


def test_a_request_makes_every_engine_due_that_the_schedule_converses_with() -> None:
    operator = Operator(prefills=2, decodes=2)
    scheduled = operator.look().targets
    found = operator.ask(ONE)
    assert due(found) == [ONE, ONE]
    assert [replace(target, request="") for target in found.targets] == list(scheduled)
    assert told(operator) == (RequestState.RUNNING, 4, 0, 0)


def test_it_is_answered_when_each_pair_has_shown_something_since() -> None:
    operator = Operator(prefills=2)
    operator.look(a_report(operator.seen, D0, {P0: SHOWN, P1: SHOWN}))
    operator.ask(ONE)
    assert due(operator.converse({P0: SHOWN}, ONE)) == [ONE]
    assert told(operator) == (RequestState.RUNNING, 2, 1, 0)
    assert due(operator.converse({P1: SHOWN}, ONE)) == [""]
    assert told(operator) == (RequestState.ANSWERED, 2, 2, 0)


def test_an_engine_that_has_answered_is_left_alone_while_others_are_still_to() -> None:
    operator = Operator(decodes=2)
    operator.ask(ONE)
    assert due(operator.converse({P0: SHOWN}, ONE)) == ["", ONE]


def test_a_failure_that_may_pass_has_to_repeat_itself_and_then_is_the_answer() -> None:
    operator = Operator()
    operator.ask(ONE)
    operator.converse({P0: failed(Reason.TIMEOUT, "too late")}, ONE)
    assert told(operator) == (RequestState.RUNNING, 1, 0, 0)
    operator.converse({P0: failed(Reason.TIMEOUT, "too late")}, ONE)
    assert told(operator) == (RequestState.ANSWERED, 1, 0, 1)
    assert operator.answer is not None
    assert operator.answer.message.endswith(f"{D0} with {P0}: Timeout: too late")


def test_a_failure_before_the_request_counts_for_the_conditions_and_not_for_it() -> None:
    operator = Operator()
    operator.converse({P0: failed(Reason.TIMEOUT)}, "")
    operator.ask(ONE)
    operator.converse({P0: failed(Reason.TIMEOUT)}, ONE)
    assert told(operator) == (RequestState.RUNNING, 1, 0, 0)


@pytest.mark.parametrize("known", [None, SHOWN], ids=["nothing known before", "shown before"])
def test_an_engine_that_cannot_be_conversed_with_answers_for_all_its_pairs(known: Result | None) -> None:
    operator = Operator(prefills=2)
    operator.look(*([a_report(operator.seen, D0, {P0: known, P1: known})] if known else []))
    operator.ask(ONE)
    assert due(operator.converse({"": KEY}, ONE)) == [""]
    assert told(operator) == (RequestState.ANSWERED, 2, 0, 0)
    assert operator.answer is not None
    assert "KeyRequired: decode asks for an API key" in operator.answer.message


def test_what_was_held_before_the_request_is_no_answer_to_it() -> None:
    operator = Operator()
    operator.ask(ONE)
    operator.converse({P0: SHOWN}, "")
    assert told(operator) == (RequestState.RUNNING, 1, 0, 0)


def test_of_two_requests_the_newest_counts() -> None:
    operator = Operator(prefills=2)
    operator.ask(ONE)
    operator.converse({P0: SHOWN}, ONE)
    assert due(operator.ask(TWO)) == [TWO]
    operator.converse({P1: SHOWN}, ONE)
    assert told(operator) == (RequestState.RUNNING, 2, 0, 0)
    operator.converse({P0: SHOWN, P1: SHOWN}, TWO)
    assert told(operator) == (RequestState.ANSWERED, 2, 2, 0)


def test_an_answered_request_is_not_begun_again_and_what_comes_later_does_not_change_its_answer() -> None:
    operator = Operator()
    operator.ask(ONE)
    operator.converse({P0: SHOWN}, ONE)
    answer = operator.answer
    operator.converse({P0: failed()}, ONE)
    assert due(operator.wait(timedelta(days=1))) == [""]
    assert operator.answer == answer


def test_the_next_operator_goes_on_with_what_pods_say_where_the_last_one_died_before_it_wrote_the_status() -> None:
    operator = Operator(prefills=2)
    operator.ask(ONE)
    told_of = replace(a_report(operator.seen, D0, {P0: SHOWN}), request=ONE)
    # It has written the pod, and then it dies.
    seen = replace(operator.seen, reports=(told_of,))
    operator.seen = replace(carried_out(seen, plan(seen, DEFAULTS)), reports=())
    assert due(operator.look()) == [ONE]
    assert told(operator) == (RequestState.RUNNING, 2, 1, 0)


def test_an_engine_whose_process_is_another_one_answers_anew() -> None:
    operator = Operator(decodes=2)
    operator.ask(ONE)
    operator.converse({P0: SHOWN}, ONE)
    (pod,) = [pod for pod in operator.seen.pods if pod["metadata"]["name"] == D0]
    pod["status"]["containerStatuses"][0]["restartCount"] = 1
    assert due(operator.look()) == [ONE, ONE]
    assert told(operator) == (RequestState.RUNNING, 2, 0, 0)


def test_a_request_ends_when_its_time_is_over() -> None:
    operator = Operator(prefills=2)
    found = operator.ask(ONE)
    assert found.again is not None
    assert found.again <= LONGEST + 2 * LONGEST_EACH + timedelta(seconds=1)
    operator.converse({P0: SHOWN}, ONE)
    assert due(operator.wait(LONGEST + 2 * LONGEST_EACH)) == [""]
    assert told(operator) == (RequestState.TIMED_OUT, 2, 1, 0)
    assert operator.answer is not None
    assert "1 are still to answer" in operator.answer.message


@pytest.mark.parametrize(
    ("resource", "words"),
    [
        (a_resource().with_spec("verification", value={"enabled": False}), "spec.verification.enabled is false"),
        (a_resource().pulling(), "spec.transfer.protocol is NixlPull"),
        (a_resource().with_spec("rollout", value={"progressDeadline": "0s"}), "spec.rollout.progressDeadline"),
    ],
)
def test_where_nothing_is_ever_tried_the_field_is_named_and_nobody_is_due(
    resource: ResourceBuilder, words: str
) -> None:
    seen = _as_stored(resource.annotated(VERIFY_ANNOTATION, ONE))
    found = _found(seen)
    assert found.status.verification is not None
    assert (found.status.verification.state, found.status.verification.request) == (RequestState.REFUSED, ONE)
    assert words in found.status.verification.message
    assert ONE not in due(found)
    assert [event.message for event in found.events if event.reason == Reason.VERIFICATION_REFUSED] == [
        found.status.verification.message
    ]


def test_without_a_pair_that_is_ready_it_is_said_at_once() -> None:
    operator = Operator(prefills=0)
    operator.ask(ONE)
    assert operator.answer is not None
    assert (operator.answer.state, operator.answer.request) == (RequestState.REFUSED, ONE)
    assert "no pair of engines" in operator.answer.message


@pytest.mark.parametrize("value", ["now please", "x" * 65, "-1", "é", "\n", "{}", "a\x00b"])
def test_a_value_that_is_none_is_said_once_with_the_remedy_and_begins_nothing(value: str) -> None:
    operator = Operator()
    first = operator.ask(value)
    assert operator.answer is not None
    assert (operator.answer.state, operator.answer.request) == (RequestState.REFUSED, "")
    assert f"metadata.annotations[{VERIFY_ANNOTATION}] is" in operator.answer.message
    assert "give it 1 to 64 letters" in operator.answer.message
    assert [event.reason for event in first.events] == [Reason.VERIFICATION_REFUSED]
    answer = operator.answer
    again = operator.wait(timedelta(hours=1))
    assert (operator.answer, again.events, due(again)) == (answer, (), [""])


def test_a_request_that_is_taken_back_leaves_nothing() -> None:
    operator = Operator()
    operator.ask(ONE)
    assert due(operator.ask(None)) == [""]
    assert operator.answer is None


def test_a_conversation_that_is_asked_for_is_always_news_and_comes_at_once_unless_something_failed() -> None:
    operator = Operator()
    operator.look(a_report(operator.seen, D0, {P0: SHOWN}))
    (usual,) = operator.look().targets
    (asked,) = operator.ask(ONE).targets
    report = a_report(operator.seen, D0, {P0: SHOWN})
    assert not is_news(usual, report)
    assert is_news(asked, replace(report, request=ONE))
    assert next_after(asked, SOON_TRIES, Standing.SHOWN) == AT_ONCE_SECONDS
    assert next_after(asked, SOON_TRIES, Standing.FAILED) == SOON_SECONDS
    assert next_after(usual, 0, Standing.SHOWN) == usual.period


_STANDINGS = st.sampled_from([SHOWN, failed(), failed(Reason.TIMEOUT), failed(Reason.NOTHING_MOVED_BACK), KEY])
_RESULTS = st.dictionaries(st.sampled_from(["", P0, P1]), _STANDINGS, max_size=3)
_STEPS = st.one_of(
    st.tuples(st.just("ask"), st.sampled_from([ONE, TWO, "three", "not one", None])),
    st.tuples(st.just("converse"), st.tuples(_RESULTS, st.sampled_from([D0, "qwen-decode-1"]), st.booleans())),
    st.tuples(st.just("wait"), st.integers(0, 400)),
    st.tuples(st.just("restart"), st.sampled_from([D0, P0])),
    st.tuples(st.just("lose the status"), st.none()),
)


@settings(max_examples=40)
@given(st.lists(_STEPS, max_size=12))
def test_whatever_happens_a_request_is_answered_once_and_somebody_is_due_exactly_while_it_runs(
    steps: list[Any],
) -> None:
    operator = Operator(prefills=2, decodes=2)
    asked: str | None = None
    for step, what in steps:
        before, last = operator.answer, operator.look()
        match step:
            case "ask":
                asked = what
                found = operator.ask(what)
            case "converse":
                results, decode, in_time = what
                request = next((each.request for each in last.targets), "") if in_time else "long ago"
                found = operator.converse(results, request, decode)
            case "wait":
                found = operator.wait(timedelta(seconds=what))
            case "restart":
                (pod,) = [pod for pod in operator.seen.pods if pod["metadata"]["name"] == what]
                pod["status"]["containerStatuses"][0]["restartCount"] += 1
                found = operator.look()
            case _:
                operator._resource(status=None)
                before, found = None, operator.look()
        _hold(operator, found, before, asked)
    if asked and operator.answer and operator.answer.state is RequestState.RUNNING:
        _hold(operator, operator.wait(LONGEST + 4 * LONGEST_EACH), None, asked)
        assert operator.answer.state is not RequestState.RUNNING


def _hold(operator: Operator, found: Outcome, before: RequestedVerification | None, asked: str | None) -> None:
    answer = operator.answer
    if asked is None:
        assert answer is None
        assert not any(due(found))
        return
    assert answer is not None
    assert answer.request == ("" if asked == "not one" else asked)
    if answer.state is RequestState.RUNNING:
        assert found.again is not None
        assert set(due(found)) <= {asked, ""}
        assert any(due(found)) or not found.targets
    else:
        assert not any(due(found))
    assert answer.shown + answer.failed <= answer.pairs
    if before and before.request == answer.request and before.state is not RequestState.RUNNING:
        assert answer == before
    for pod in operator.seen.pods:
        kept = pod["metadata"].get("annotations", {}).get(VERIFICATION_ANNOTATION)
        of_round = json.loads(kept).get("round") if kept else None
        assert of_round is None or of_round["request"] not in {"", "long ago", "not one"}


def _as_stored(resource: ResourceBuilder) -> Observed:
    stored = scene()
    return replace(stored, resource=resource.with_prefill(1).with_decode(1).build())


def _found(seen: Observed) -> Outcome:
    try:
        plan(seen, DEFAULTS)
    except InvalidSpec as problem:
        return outcome(seen, DEFAULTS, NOON, problem)
    return outcome(seen, DEFAULTS, NOON)
