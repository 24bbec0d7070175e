# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import pytest
from rich.console import Console

from tandem_connector.contract.types import Role
from tandem_operator.api.names import VERIFICATION_ANNOTATION
from tandem_operator.api.status import Quarantined, Reason
from tandem_operator.kubectl.terminal.status import status_tree
from tandem_operator.kubectl.views.engine import PairState, State, engines, pairs
from tandem_operator.kubectl.views.seen import Seen
from tandem_operator.kubectl.views.status import resource_view
from tandem_operator.plan.conversation import Standing
from tandem_operator.plan.verification import Fabric, PairRecord, Record
from tests.builders import a_node, a_pod, a_ready_pod
from tests.builders.pods import PodBuilder
from tests.kubectl.builders import READY, seen, two_of_each, with_conditions

CRASHED = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}


def text_of(given: Seen) -> str:
    console = Console(width=200)
    with console.capture() as captured:
        console.print(status_tree(resource_view(given)))
    return captured.get()


@pytest.mark.parametrize(
    ("pod", "state"),
    [
        (a_pod(), State.PENDING),
        (a_pod().on_node("node-a"), State.STARTING),
        (a_pod().on_node("node-a").with_container(state=CRASHED), State.FAILING),
        (a_ready_pod().on_node("node-a"), State.READY),
        (a_ready_pod().on_node("node-a").terminating(), State.DRAINING),
    ],
    ids=lambda value: value.value if isinstance(value, State) else "",
)
def test_each_engine_is_at_something_that_has_one_word(pod: PodBuilder, state: State) -> None:
    (engine,) = engines(seen(pods=[pod]))
    assert engine.state is state


def test_an_engine_that_is_out_of_use_is_called_so_though_it_answers() -> None:
    pod = a_ready_pod().on_node("node-a")
    entry = Quarantined(
        pod="qwen-decode-0",
        role="decode",
        uid=pod.build()["metadata"]["uid"],
        reason="Timeout",
        since="2026-01-01T00:00:00Z",
    )
    (engine,) = engines(seen(with_conditions(READY, quarantined=(entry,)), [pod]))
    assert engine.state is State.QUARANTINED


def test_pairs_are_those_of_the_peer_tables() -> None:
    found = pairs(two_of_each().pods)
    assert [(pair.prefill, pair.decode, pair.state) for pair in found] == [
        ("qwen-prefill-0", "qwen-decode-0", PairState.OPEN),
        ("qwen-prefill-1", "qwen-decode-0", PairState.OPEN),
        ("qwen-prefill-0", "qwen-decode-1", PairState.OPEN),
        ("qwen-prefill-1", "qwen-decode-1", PairState.OPEN),
    ]


def test_a_pair_of_which_only_one_side_knows_is_settling() -> None:
    told = two_of_each().observed
    pods = tuple(
        {**pod, "metadata": {**pod["metadata"], "annotations": {}}} if "decode-1" in pod["metadata"]["name"] else pod
        for pod in told.pods
    )
    found = {pair.decode: pair.state for pair in pairs(Seen(replace(told, pods=pods)).pods)}
    assert found == {"qwen-decode-0": PairState.OPEN, "qwen-decode-1": PairState.SETTLING}


def test_what_conversations_have_shown_of_a_pair_is_told() -> None:
    told = two_of_each().observed
    by_name = {pod.name: pod for pod in Seen(told).pods}
    decode, prefill = by_name["qwen-decode-0"], by_name["qwen-prefill-0"]
    assert decode.peer
    assert prefill.peer
    record = Record(
        engine=decode.peer.engine,
        fabric=Fabric(backend="LIBFABRIC", provider="efa", devices=16),
        pairs={prefill.peer.engine: PairRecord(standing=Standing.FAILED, reason=Reason.TIMEOUT, detail="no answer")},
    )
    pods = [dict(pod) for pod in told.pods]
    for pod in pods:
        if pod["metadata"]["uid"] == decode.uid:
            annotations = {**pod["metadata"]["annotations"], VERIFICATION_ANNOTATION: record.to_annotation()}
            pod["metadata"] = {**pod["metadata"], "annotations": annotations}
    given = Seen(replace(told, pods=tuple(pods)))
    view = resource_view(given)
    (failed,) = [pair for pair in view.pairs if pair.state is PairState.FAILED]
    assert (failed.prefill, failed.decode, failed.reason) == ("qwen-prefill-0", "qwen-decode-0", Reason.TIMEOUT)
    assert {engine.pod: engine.fabric for engine in view.engines}["qwen-decode-0"] == "LIBFABRIC efa"
    assert "✗ qwen-prefill-0" in text_of(given)
    assert "Timeout: no answer" in text_of(given)


def test_the_tree_has_roles_engines_nodes_and_pairs() -> None:
    text = text_of(two_of_each())
    for words in (
        "models/qwen",
        "prefill",
        "decode",
        "qwen-decode-1  ready",
        "node-a",
        "asks  · qwen-prefill-0",
        "heir",
    ):
        assert words in text


def test_an_engine_is_where_its_node_is() -> None:
    node = a_node().in_zone("us-west-2a").under("nn-1", "nn-2")
    (engine,) = engines(seen(pods=[a_ready_pod(Role.PREFILL).on_node("node-a")], nodes=[node]))
    assert (engine.zone, engine.layers) == ("us-west-2a", ("nn-1", "nn-2"))


def test_a_generation_that_the_operator_has_not_looked_at_is_said_and_not_ready() -> None:
    given = seen(with_conditions(READY, generation=1).of_generation(2))
    assert not resource_view(given).ready
    assert "hasn't looked at its newest generation" in text_of(given)


def test_what_could_not_be_read_is_said() -> None:
    assert "not read: nodes: forbidden" in text_of(replace(seen(), unread=("nodes: forbidden",)))


def test_words_from_the_cluster_are_not_taken_for_markup() -> None:
    state = {"waiting": {"reason": "CrashLoopBackOff", "message": "[red]not ours[/red]"}}
    assert "[red]not ours[/red]" in text_of(seen(pods=[a_pod().on_node("node-a").with_container(state=state)]))
