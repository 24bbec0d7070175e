# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping
from dataclasses import replace

from rich.console import Console

from tandem_connector.contract.types import Role
from tandem_operator.kubectl.terminal.flows import flows_tables
from tandem_operator.kubectl.views.engine import Pair, PairState
from tandem_operator.kubectl.views.engine_metrics import Reading, reading
from tandem_operator.kubectl.views.flows import FlowsView, Silent, flows
from tandem_operator.kubectl.views.pair_flows import PairFlow
from tandem_operator.kubectl.views.seen import Seen
from tests.builders import a_ready_pod, a_resource, observed, settled
from tests.kubectl.builders import metrics_text, seen, two_of_each


def of(seen: Seen, texts: Mapping[str, str], at: float) -> dict[str, Reading | Silent]:
    """Readings by the names of pods."""
    return {pod.uid: reading(texts[pod.name], at) for pod in seen.pods if pod.name in texts}


def one_prefill_two_decode() -> Seen:
    pods = [a_ready_pod(Role.PREFILL), a_ready_pod(Role.DECODE, 0), a_ready_pod(Role.DECODE, 1)]
    return Seen(settled(observed(a_resource().with_prefill(1).with_decode(2), pods)))


def moving() -> FlowsView:
    """KiB by the second: 3 to the first decode engine, 1 to the other, and 2 back from the first."""
    told = one_prefill_two_decode()
    at_first = dict.fromkeys(("qwen-prefill-0", "qwen-decode-0", "qwen-decode-1"), metrics_text())
    then = {
        "qwen-prefill-0": metrics_text(
            tokens={"computed": 200, "cached": 20},
            written={"forward": 8192},
            received={"reverse_push": 2048, "reverse_fetch": 2048},
            received_from={
                ("qwen-decode-0", "reverse_push"): 2048,
                ("qwen-decode-0", "reverse_fetch"): 2048,
                ("qwen-decode-1", "reverse_push"): 0,
            },
        ),
        "qwen-decode-0": metrics_text(
            received={"forward": 6144},
            written={"reverse_push": 2048, "reverse_fetch": 2048},
            received_from={("qwen-prefill-0", "forward"): 6144},
            wants_open=4,
        ),
        "qwen-decode-1": metrics_text(
            received={"forward": 2048}, received_from={("qwen-prefill-0", "forward"): 2048}, waits=(4, 0.5)
        ),
    }
    return flows(told, of(told, at_first, 10.0), of(told, then, 12.0))


def test_each_engine_has_what_it_is_at_and_what_it_did() -> None:
    prefill, first, second = moving().engines
    assert (prefill.engine.pod, prefill.engine.role) == ("qwen-prefill-0", Role.PREFILL)
    assert prefill.rates is not None
    assert prefill.rates.tokens == {"cached": 10, "computed": 100}
    assert first.standing is not None
    assert (first.standing.wants_open, first.engine.heir) == (4, "qwen-decode-1")
    assert second.rates is not None
    assert (second.rates.waits, second.rates.mean_wait) == (2.0, 0.125)


def test_each_pair_has_what_went_over_it_both_ways() -> None:
    over = {flow.pair.decode: (flow.forward, flow.reverse) for flow in moving().pairs}
    assert over == {"qwen-decode-0": (3072, 2048), "qwen-decode-1": (1024, 0)}


def test_what_a_draining_engine_hands_over_is_of_no_pair() -> None:
    told = one_prefill_two_decode()
    idle = {("qwen-decode-0", "forward"): 0.0, ("qwen-decode-1", "forward"): 0.0}
    back = {("qwen-decode-0", "reverse_push"): 0.0, ("qwen-decode-1", "reverse_push"): 0.0}
    then = {
        "qwen-prefill-0": metrics_text(written_to=idle, received_from=back),
        "qwen-decode-0": metrics_text(written={"move": 4096}, written_to={("qwen-decode-1", "move"): 4096}),
        "qwen-decode-1": metrics_text(received={"move": 4096}, received_from={("qwen-decode-0", "move"): 4096}),
    }
    view = flows(told, of(told, dict.fromkeys(then, metrics_text()), 10.0), of(told, then, 12.0))
    assert {flow.engine.pod: flow.rates.received for flow in view.engines if flow.rates} == {
        "qwen-prefill-0": {},
        "qwen-decode-0": {},
        "qwen-decode-1": {"move": 2048},
    }
    assert {(flow.forward, flow.reverse) for flow in view.pairs} == {(0, 0)}


def test_the_first_look_tells_what_there_is_and_no_rates() -> None:
    told = two_of_each()
    now = of(told, {pod.name: metrics_text(wants_open=1) for pod in told.pods}, 10.0)
    view = flows(told, {}, now)
    assert {each.standing.wants_open for each in view.engines if each.standing} == {1}
    assert {each.rates for each in view.engines} == {None}
    assert {(each.forward, each.reverse) for each in view.pairs} == {(None, None)}


def test_an_engine_that_was_not_read_is_there_with_the_reason() -> None:
    told = one_prefill_two_decode()
    silent = Silent("pods/proxy is forbidden")
    view = flows(told, {}, {pod.uid: silent for pod in told.pods})
    assert {(each.silent, each.standing) for each in view.engines} == {(silent.why, None)}
    assert len(view.pairs) == 2, "its wiring is known all the same"


def test_a_pod_that_took_anothers_name_is_not_compared_with_it() -> None:
    told = seen(pods=[a_ready_pod()])
    (pod,) = told.observed.pods
    another = {**pod, "metadata": {**pod["metadata"], "uid": "10000000-0000-4000-8000-000000000000"}}
    later = replace(told, observed=replace(told.observed, pods=(another,)))
    before = of(told, {"qwen-decode-0": metrics_text()}, 10.0)
    now = of(later, {"qwen-decode-0": metrics_text(tokens={"computed": 9})}, 12.0)
    assert [each.rates for each in flows(later, before, now).engines] == [None]


def test_the_terminal_has_a_row_for_each_engine_and_each_pair() -> None:
    console = Console(width=200)
    with console.capture() as captured:
        console.print(flows_tables(moving()))
    rows = captured.get().splitlines()
    (prefill,) = (row for row in rows if row.startswith("qwen-prefill-0  ready"))
    assert "cached 10, computed 100" in prefill
    assert "forward 4 KiB" in prefill
    (pair,) = (row.split() for row in rows if row.startswith("qwen-prefill-0") and "qwen-decode-0" in row)
    assert pair == ["qwen-prefill-0", "·", "qwen-decode-0", "3", "KiB", "2", "KiB"]


def test_of_a_mesh_the_terminal_lists_the_pairs_that_fail_or_that_most_goes_over_and_sums_up_the_rest() -> None:
    view = moving()
    flow = view.pairs[0]
    names = [(f"p-{row}", f"d-{column}") for row in range(8) for column in range(16)]
    mesh = [
        PairFlow(pair=Pair(prefill=of, decode=to, state=PairState.SHOWN), forward=1024.0 * number, reverse=0)
        for number, (of, to) in enumerate(names)
    ]
    failing = flow.pair.model_copy(update={"prefill": "p-bad", "state": PairState.FAILED})
    mesh.append(PairFlow(pair=failing, forward=0, reverse=None))
    console = Console(width=200)
    with console.capture() as captured:
        console.print(flows_tables(view.model_copy(update={"pairs": tuple(mesh)})))
    rows = captured.get().splitlines()
    listed = [row.split()[0] for row in rows if row.startswith("p-")]
    assert (len(listed), listed[0], listed[1], listed[-1]) == (24, "p-bad", "p-7", "p-6")
    assert rows[-1].startswith("and 105 more pairs, together 5.33 MiB/s")


def test_the_terminal_says_why_an_engine_was_not_read() -> None:
    console = Console(width=200)
    with console.capture() as captured:
        told = one_prefill_two_decode()
        console.print(flows_tables(flows(told, {}, {pod.uid: Silent("it is [bold]down") for pod in told.pods})))
    assert "qwen-decode-0: it is [bold]down" in captured.get()
