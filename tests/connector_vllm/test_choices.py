# SPDX-License-Identifier: Apache-2.0
"""What was chosen for a turn is in its account and counted, and what an engine says of itself is in its metrics."""

import pytest

from tandem_connector.exchange.types import EngineId, RequestId, Seconds
from tandem_connector.vllm.account import account_of, account_params
from tandem_connector.vllm.metrics import COUNTERS, GAUGES, SEPARATOR, Meter
from tandem_connector.vllm.steps import Progress
from tandem_connector.vllm.turns import Phase, Turn
from tests.connector_vllm.quiet import QUIET

R = RequestId("r")


def a_turn(*, fetch: bool | None = None, hold: float | None = None) -> Turn:
    return Turn(R, (), Seconds(1.0), Phase.DONE, fetch=fetch, hold=hold)


@pytest.mark.parametrize(
    ("turn", "told"),
    [
        (a_turn(), (None, None)),
        (a_turn(fetch=True), (True, None)),
        (a_turn(fetch=False, hold=0.0), (False, False)),
        (a_turn(hold=0.5), (None, True)),
    ],
)
def test_an_account_says_what_was_chosen(turn: Turn, told: tuple[bool | None, bool | None]) -> None:
    account = account_of(turn, Progress(R, (), 10), 1, 16)
    assert (account.fetch, account.wait) == told
    assert account_params(account)["tandem"].items() >= {"fetch": told[0], "wait": told[1]}.items()  # type: ignore[attr-defined]


def test_choices_are_counted_by_what_they_were_of() -> None:
    meter = Meter()
    for turn in (a_turn(), a_turn(fetch=True), a_turn(fetch=True, hold=0.0), a_turn(fetch=False, hold=2.0)):
        meter.turn_ended(account_of(turn, Progress(R, (), 10), 1, 16))
    news = meter.news(QUIET)
    assert news is not None
    assert news["counters"]["choices"] == {"fetch|fetch": 2, "fetch|compute": 1, "wait|compute": 1, "wait|wait": 1}
    (metric,) = [metric for metric in COUNTERS if metric.name == "choices"]
    assert {len(label.split(SEPARATOR)) for label in news["counters"]["choices"]} == {len(metric.labels)}


def test_what_kv_goes_over_is_told_with_a_label_for_each_part() -> None:
    news = Meter().news(QUIET)
    assert news is not None
    assert news["gauges"]["transport"] == {"UCX||0": 1}
    (metric,) = [metric for metric in GAUGES if metric.name == "transport"]
    assert metric.labels == ("backend", "provider", "devices")


def test_peers_that_cannot_be_spoken_with_are_counted() -> None:
    news = Meter().news(QUIET)
    assert news is not None
    assert news["gauges"]["peers_refused"] == {"": 2}


def test_an_account_names_the_engines_that_were_asked_in_their_order() -> None:
    turn = a_turn()
    turn.asked += [EngineId("first"), EngineId("second")]
    account = account_params(account_of(turn, Progress(R, (), 10), 1, 16))["tandem"]
    assert account["asked"] == ("first", "second")  # type: ignore[index]
