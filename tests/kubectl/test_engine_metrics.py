# SPDX-License-Identifier: Apache-2.0
import pytest

from charts.metrics import engine_metrics
from tandem_connector.vllm.metrics import WAIT
from tandem_operator.kubectl.views.engine_metrics import BY_PEER, COUNTERS, GAUGES, Rates, Unreadable, rates, reading
from tests.chart.vllm_metrics import VLLM_METRICS
from tests.kubectl.builders import metrics_text


def between(before: str, now: str, seconds: float = 2.0) -> Rates:
    done = rates(reading(before, 10.0), reading(now, 10.0 + seconds))
    assert done is not None
    return done


def test_what_was_added_between_two_looks_is_told_by_the_second() -> None:
    done = between(
        metrics_text(tokens={"computed": 100, "cached": 10}, received={"forward": 4096}),
        metrics_text(tokens={"computed": 300, "cached": 10}, received={"forward": 8192}, written={"move": 64}),
    )
    assert done.tokens == {"cached": 0, "computed": 100}
    assert done.received == {"forward": 2048}
    assert done.written == {"move": 32}, "a counter that wasn't there before has begun at nothing"


def test_waits_are_told_by_how_many_there_were_and_how_long_each_was() -> None:
    done = between(metrics_text(waits=(10, 5.0)), metrics_text(waits=(14, 6.0)))
    assert (done.waits, done.mean_wait) == (2.0, 0.25)
    assert between(metrics_text(waits=(10, 5.0)), metrics_text(waits=(10, 5.0))).mean_wait is None


def test_data_parallel_ranks_of_a_pod_are_summed() -> None:
    now = reading(metrics_text(wants_open=1) + metrics_text(wants_open=2, rank=1), 0.0)
    assert (now.standing.wants_open, now.standing.requests_running) == (3, 4)
    two = metrics_text(written={"forward": 2}) + metrics_text(written={"forward": 4}, rank=1)
    assert between(metrics_text(), two).written == {"forward": 3}


def test_what_went_over_each_pair_is_told_of_all_ranks_and_a_peer_that_left_or_is_back_leaves_the_rest_as_it_is() -> (
    None
):
    before = metrics_text(
        tokens={"computed": 1},
        received_from={("d-0", "reverse_push"): 100, ("d-1", "reverse_push"): 100, ("d-2", "reverse_push"): 100},
    )
    now = metrics_text(
        tokens={"computed": 1},
        received_from={("d-0", "reverse_push"): 300, ("d-1", "reverse_push"): 10},
        written_to={("d-3", "forward"): 40},
    ) + metrics_text(rank=1, received_from={("d-0", "reverse_push"): 4})
    done = between(before, now)
    assert done.received_from == {"d-0": {"reverse_push": 102}, "d-1": {"reverse_push": 5}}
    assert done.written_to == {"d-3": {"forward": 20}}


@pytest.mark.parametrize(
    "now",
    [metrics_text(tokens={"computed": 50}), metrics_text(tokens={"cached": 500})],
    ids=["a counter fell", "a counter is gone"],
)
def test_of_an_engine_that_began_anew_no_rates_are_told(now: str) -> None:
    before = reading(metrics_text(tokens={"computed": 100}), 10.0)
    assert rates(before, reading(now, 12.0)) is None


def test_two_readings_of_the_same_moment_tell_no_rates() -> None:
    assert rates(reading(metrics_text(), 10.0), reading(metrics_text(), 10.0)) is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("<html>a proxy's page</html>", "tells nothing of an exchange"),
        ("vllm:num_requests_running 3\n", "tells nothing of an exchange"),
        ("tandem_wants_open many\n", "can't be read"),
    ],
)
def test_an_answer_that_says_nothing_is_told_apart_from_one_that_says_zero(text: str, why: str) -> None:
    with pytest.raises(Unreadable, match=why):
        reading(text, 0.0)


def test_numbers_that_json_has_no_word_for_are_left_out() -> None:
    text = metrics_text(tokens={"computed": float("nan")}) + "tandem_wants_served +Inf\n"
    assert between(metrics_text(), text).tokens == {}
    assert reading(text, 0.0).standing.wants_served == 0


def test_every_metric_that_is_read_is_one_that_engines_have() -> None:
    labels = {each.name: each.labels for each in engine_metrics()}
    of_wait = {f"tandem_{WAIT.name}_{part}": () for part in ("sum", "count")}
    there = {**labels, **of_wait, **VLLM_METRICS}
    assert {name: ((label,) if label else ()) for name, label in COUNTERS.items()}.items() <= there.items()
    assert dict.fromkeys(BY_PEER, ("peer", "purpose")).items() <= there.items()
    assert set(GAUGES.values()) <= there.keys()
