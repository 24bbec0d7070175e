# SPDX-License-Identifier: Apache-2.0
"""One P after another, and always an end."""

import pytest

from tandem_connector.asking.attempts import (
    Answered,
    Asked,
    Attempts,
    Failed,
    GivenUp,
    Looked,
    Withdrawn,
)
from tandem_connector.asking.choose import Choice, Chosen, How, LookAround
from tandem_connector.asking.types import Answer, CallFailed, CallId, Failure, LocalReason, PrefillId
from tandem_connector.contract.types import QueryId
from tandem_connector.exchange.types import EngineId, Seconds
from tests.asking.builders import SETTINGS, A, B, C, settings

ONE = PrefillId(1)
NOW = Seconds(100.0)
TOKENS = 1_000
PATIENCE = SETTINGS.patience_for(TOKENS)


class InOrder:
    """Chooses the first P that was not tried; looks around first, if it is to."""

    def __init__(self, *engines: EngineId, looks: bool = False) -> None:
        self.engines, self.looks = engines, looks
        self.haves: dict[EngineId, int] | None = None

    def __call__(
        self, prefill: PrefillId, tried: frozenset[EngineId], haves: dict[EngineId, int] | None, now: Seconds
    ) -> Choice:
        self.haves = haves
        left = [engine for engine in self.engines if engine not in tried]
        if left and self.looks and haves is None:
            return LookAround(tuple(left))
        return Chosen(left[0], How.LEAST_LOADED, 0) if left else None


def began(chooser: InOrder, attempts: int = 3) -> Attempts:
    machine = Attempts(settings(attempts=attempts), chooser)  # type: ignore[arg-type]
    machine.begin(ONE, TOKENS, NOW)
    return machine


def asked(engine: EngineId, call: int) -> Asked:
    return Asked(ONE, CallId(call), engine, How.LEAST_LOADED, Seconds(NOW + 2 * PATIENCE))


def failed(engine: EngineId, failure: Failure) -> Failed:
    return Failed(ONE, engine, failure, "")


def test_an_answer_ends_it() -> None:
    machine = began(InOrder(A))
    assert machine.steps() == [asked(A, 1)]

    machine.call_ended(CallId(1), Answer(None), NOW)

    assert machine.steps() == [Answered(ONE, A, None)]
    assert len(machine) == 0
    assert machine.next_due() is None


@pytest.mark.parametrize("failure", [failure for failure in Failure if not failure.is_final])
def test_the_next_p_is_asked_after_a_failure(failure: Failure) -> None:
    machine = began(InOrder(A, B))

    machine.call_ended(CallId(1), CallFailed(failure, ""), NOW)

    assert machine.steps() == [asked(A, 1), failed(A, failure), asked(B, 2)]


def test_a_request_that_is_wrong_is_not_sent_to_the_next() -> None:
    machine = began(InOrder(A, B))

    machine.call_ended(CallId(1), CallFailed(Failure.REJECTED, ""), NOW)

    assert machine.steps()[1:] == [failed(A, Failure.REJECTED), GivenUp(ONE, LocalReason.REJECTED)]


def test_it_is_given_up_when_all_have_failed() -> None:
    machine = began(InOrder(A, B))

    machine.call_ended(CallId(1), CallFailed(Failure.REFUSED, ""), NOW)
    machine.call_ended(CallId(2), CallFailed(Failure.REFUSED, ""), NOW)

    assert machine.steps()[-1] == GivenUp(ONE, LocalReason.ALL_FAILED)
    assert len(machine) == 0


def test_no_more_ps_are_asked_than_may_be() -> None:
    machine = began(InOrder(A, B, C), attempts=2)

    machine.call_ended(CallId(1), CallFailed(Failure.REFUSED, ""), NOW)
    machine.call_ended(CallId(2), CallFailed(Failure.REFUSED, ""), NOW)

    assert machine.steps()[-1] == GivenUp(ONE, LocalReason.ALL_FAILED)


def test_it_is_given_up_at_once_when_there_is_nobody() -> None:
    assert began(InOrder()).steps() == [GivenUp(ONE, LocalReason.NO_PEER)]


def test_a_slow_p_has_its_call_withdrawn_before_the_next_is_asked() -> None:
    machine = began(InOrder(A, B))
    machine.steps()

    machine.tick(Seconds(NOW + PATIENCE - 0.1))
    assert machine.steps() == []

    machine.tick(Seconds(NOW + PATIENCE))
    assert machine.steps() == [
        Withdrawn(CallId(1)),
        Failed(ONE, A, Failure.SLOW, "no progress"),
        asked(B, 2),
    ]


def test_a_p_that_makes_progress_is_not_slow_until_the_deadline() -> None:
    machine = began(InOrder(A, B))
    machine.steps()
    half = Seconds(PATIENCE / 2)

    for turn in range(1, 4):
        machine.progressed(ONE, Seconds(NOW + turn * half))
        machine.tick(Seconds(NOW + turn * half))
    assert machine.steps() == []

    machine.tick(Seconds(NOW + 2 * PATIENCE))
    assert machine.steps()[-1] == GivenUp(ONE, LocalReason.TOO_LATE)


def test_a_lost_p_is_replaced() -> None:
    machine = began(InOrder(A, B))

    machine.peer_lost(A, NOW)
    machine.peer_lost(C, NOW)

    assert machine.steps() == [asked(A, 1), Withdrawn(CallId(1)), failed(A, Failure.PEER_LOST), asked(B, 2)]


def test_the_end_of_a_withdrawn_call_is_nothing() -> None:
    machine = began(InOrder(A, B))
    machine.peer_lost(A, NOW)
    machine.steps()

    machine.call_ended(CallId(1), CallFailed(Failure.CLOSED, ""), NOW)
    machine.call_ended(CallId(1), Answer(None), NOW)

    assert machine.steps() == []


def test_closing_withdraws_the_call_and_says_no_more() -> None:
    machine = began(InOrder(A, B))

    machine.close(ONE)
    machine.close(ONE)

    assert machine.steps() == [asked(A, 1), Withdrawn(CallId(1))]
    assert len(machine) == 0


def test_looking_around_ends_with_the_last_answer() -> None:
    chooser = InOrder(A, B, looks=True)
    machine = began(chooser)
    assert machine.steps() == [Looked(ONE, QueryId(1), (A, B))]

    machine.have(QueryId(1), A, 3, NOW)
    assert machine.steps() == []
    machine.have(QueryId(1), B, 5, NOW)

    assert machine.steps() == [asked(A, 1)]
    assert chooser.haves == {A: 3, B: 5}


def test_looking_around_does_not_wait_longer_than_its_patience() -> None:
    chooser = InOrder(A, B, looks=True)
    machine = began(chooser)
    machine.have(QueryId(1), A, 3, NOW)

    machine.tick(Seconds(NOW + SETTINGS.query_patience))
    machine.have(QueryId(1), B, 5, NOW)

    assert machine.steps()[1:] == [asked(A, 1)]
    assert chooser.haves == {A: 3}


def test_nobody_waits_for_the_answer_of_a_lost_p_nor_takes_one_that_was_not_asked_for() -> None:
    chooser = InOrder(A, B, looks=True)
    machine = began(chooser)

    machine.have(QueryId(1), C, 9, NOW)
    machine.have(QueryId(7), B, 9, NOW)
    machine.have(QueryId(1), A, 3, NOW)
    machine.have(QueryId(1), A, 4, NOW)
    machine.peer_lost(B, NOW)

    assert chooser.haves == {A: 3}
    assert isinstance(machine.steps()[-1], Asked)


def test_closing_while_looking_leaves_nothing() -> None:
    machine = began(InOrder(A, B, looks=True))
    machine.steps()

    machine.close(ONE)
    machine.have(QueryId(1), A, 3, NOW)
    machine.tick(Seconds(NOW + 1_000))

    assert machine.steps() == []
    assert machine.next_due() is None


def test_a_chooser_that_names_a_p_twice_is_an_error() -> None:
    def stubborn(
        prefill: PrefillId, tried: frozenset[EngineId], haves: dict[EngineId, int] | None, now: Seconds
    ) -> Choice:
        return Chosen(A, How.CONTINUITY, 0)

    machine = Attempts(SETTINGS, stubborn)  # type: ignore[arg-type]
    machine.begin(ONE, TOKENS, NOW)

    with pytest.raises(ValueError, match="a-1 was tried before"):
        machine.call_ended(CallId(1), CallFailed(Failure.REFUSED, ""), NOW)
