# SPDX-License-Identifier: Apache-2.0
"""What the connector counts, in the form in which it goes from the engine's process to the one that serves `/metrics`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, TypeAlias

from tandem_connector.asking.commands import AskingTally
from tandem_connector.contract.prefill import NoteProblem
from tandem_connector.exchange.tally import Gauges, Tally
from tandem_connector.vllm.account import TurnAccount
from tandem_connector.vllm.fabric import Fabric
from tandem_connector.vllm.network.counts import NetworkCounts
from tandem_connector.vllm.peer_counts import PeerNews
from tandem_connector.vllm.peer_table import TableCounts
from tandem_connector.vllm.status import DrainStage, Status

Numbers: TypeAlias = dict[str, dict[str, float]]
"""By the metric's name, and by the values of its labels, joined with `SEPARATOR`."""
SEPARATOR: Final = "|"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric's name (without prefix), labels and help."""

    name: str
    labels: tuple[str, ...]
    help: str


COUNTERS: Final = (
    Metric(
        "wants_ended", ("purpose", "reason"), "Own wants that ended, by why blocks were wanted and how the want ended"
    ),
    Metric("blocks_wanted", ("purpose",), "Blocks that this engine asked peers for"),
    Metric("blocks_received", ("purpose",), "Blocks that peers wrote into this engine"),
    Metric("blocks_lost", ("purpose", "reason"), "Blocks that were wanted and had not come when the want ended"),
    Metric("blocks_asked", ("purpose",), "Blocks that peers asked this engine for"),
    Metric("blocks_written", ("purpose",), "Blocks that this engine wrote into peers"),
    Metric("blocks_missing", ("purpose", "reason"), "Blocks that peers were told will not come"),
    Metric("blocks_offered", ("purpose",), "Blocks that this engine offered"),
    Metric("blocks_declined", ("purpose",), "Blocks that peers offered and this engine had no room for"),
    Metric("bytes_received", ("purpose",), "Bytes of KV that peers wrote into this engine, on all ranks"),
    Metric("bytes_written", ("purpose",), "Bytes of KV that this engine wrote into peers, on all ranks"),
    Metric(
        "peer_bytes_received", ("peer", "purpose"), "Bytes of KV that a peer wrote into this engine, by the peer's pod"
    ),
    Metric(
        "peer_bytes_written", ("peer", "purpose"), "Bytes of KV that this engine wrote into a peer, by the peer's pod"
    ),
    Metric("messages_refused", ("why",), "Messages of peers that were not acted on"),
    Metric("late_notifications", (), "Blocks that arrived for a want that was over"),
    Metric("network_messages", ("what",), "Messages between engines"),
    Metric("peer_tables", ("what",), "Contents of the peer table's file, by what became of them"),
    Metric("prompts_local", ("reason",), "Prompts that decode computed itself, by why"),
    Metric("prefill_calls", ("chosen_by",), "Prefill requests sent, by what chose the engine"),
    Metric("prefill_failures", ("failure",), "Attempts at a prefill that failed, by how"),
    Metric(
        "prefills", ("what",), "Prefills that were answered, shared by several requests, or went on for another one"
    ),
    Metric("notes_refused", ("problem",), "Prefill requests whose note was not used, by why"),
    Metric("choices", ("of", "choice"), "Turns whose blocks were to be fetched, or waited for, by what was chosen"),
    Metric("prompt_tokens", ("source",), "Prompt tokens of turns that ended, by where their KV came from"),
)
BY_PEER: Final = ("peer_bytes_received", "peer_bytes_written")
"""Counters whose series go with their peers."""
GAUGES: Final = (
    Metric("wants_open", (), "Own wants that somebody waits for"),
    Metric("wants_held", (), "Own wants that ended and whose blocks can't be released yet"),
    Metric("blocks_quarantined", (), "Blocks that an engine may still write into that doesn't answer"),
    Metric("blocks_landing", (), "Blocks that are held for what peers offered"),
    Metric("blocks_pinned", (), "Own blocks that are referenced for writes"),
    Metric("wants_served", (), "Peers' wants that are not over"),
    Metric("hashes_awaited", (), "Different blocks that peers wait for and nobody has computed yet"),
    Metric("peers_connected", (), "Peers that have joined"),
    Metric(
        "peers_refused",
        (),
        "Peers of the table that can't be spoken with: versions or settings differ, or there are too many",
    ),
    Metric(
        "transport",
        ("backend", "provider", "devices"),
        "1, for what KV goes over: NIXL's backend, libfabric's provider, RDMA devices",
    ),
    Metric("healthy", (), "1, or 0 when more blocks are in quarantine than allowed"),
    Metric("draining", (), "1 while the engine is to end: it takes nothing new, and hands over what it holds"),
    Metric("drained", (), "1 when an engine that is to end has nothing left to do"),
)
WAIT: Final = Metric("wait_seconds", (), "How long requests waited for other engines' blocks")
WAIT_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


@dataclass(frozen=True, slots=True)
class State:
    """Everything that is counted."""

    tally: Tally
    gauges: Gauges
    network: NetworkCounts | None
    tables: TableCounts | None
    asking: AskingTally | None
    peers: int
    peers_refused: int
    fabric: Fabric
    status: Status
    block_bytes: int
    """Of one block on all ranks."""
    peer_news: PeerNews
    """What went between this engine and each peer since the last state."""


class Meter:
    """Remembers what was said last: counters are told as what was added since."""

    def __init__(self) -> None:
        self._told: Numbers = {}
        self._gauges: Numbers = {}
        self._tokens: dict[str, float] = {}
        self._choices: dict[str, float] = {}
        self._notes: dict[str, float] = {}
        self._waits: list[float] = []

    def turn_ended(self, account: TurnAccount) -> None:
        """Count a turn."""
        received = {str(purpose): tokens for purpose, tokens in account.received.items()}
        for source, tokens in {"computed": account.computed, "cached": account.cached, **received}.items():
            self._tokens[source] = self._tokens.get(source, 0) + tokens
        for of, elsewhere in {"fetch": account.fetch, "wait": account.wait}.items():
            if elsewhere is not None:
                label = SEPARATOR.join((of, of if elsewhere else "compute"))
                self._choices[label] = self._choices.get(label, 0) + 1
        if account.waited_ms:
            self._waits.append(account.waited_ms / 1000)

    def note_refused(self, problem: NoteProblem) -> None:
        """Count a prefill request that was treated as any other."""
        self._notes[problem.value] = self._notes.get(problem.value, 0) + 1

    def news(self, state: State) -> dict[str, Any] | None:
        """What has changed since the last call: `counters`, `gauges`, `waits`, and `gone` peers; None if nothing has."""
        now = {
            **_counters(state),
            "choices": dict(self._choices),
            "prompt_tokens": dict(self._tokens),
            "notes_refused": dict(self._notes),
        }
        added = {name: _added(values, self._told.get(name, {})) for name, values in now.items()}
        added = {name: values for name, values in {**added, **_by_peer(state)}.items() if values}
        gauges, gone = _gauges(state), state.peer_news.gone
        if not added and gauges == self._gauges and not self._waits and not gone:
            return None
        self._told, self._gauges = now, gauges
        waits, self._waits = self._waits, []
        return {"counters": added, "gauges": gauges, "waits": waits, "gone": list(gone)}


def merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Two pieces of news, one after the other, as one."""
    counters: Numbers = {name: dict(values) for name, values in first["counters"].items()}
    for name, values in second["counters"].items():
        known = counters.setdefault(name, {})
        for label, value in values.items():
            known[label] = known.get(label, 0) + value
    # Peers go after all is added. One that was gone and is back goes on with its series, rather than lose what is new in it.
    back = {label.split(SEPARATOR)[0] for name in BY_PEER for label in second["counters"].get(name, {})}
    return {
        "counters": counters,
        "gauges": {**first["gauges"], **second["gauges"]},
        "waits": [*first["waits"], *second["waits"]],
        "gone": [*(peer for peer in first["gone"] if peer not in back), *second["gone"]],
    }


def summary(news: Mapping[str, Any]) -> dict[str, int | float]:
    """The few numbers that vLLM's periodic log line is to show."""
    counters: Numbers = news["counters"]
    shown = ("blocks_received", "blocks_written", "blocks_lost", "blocks_missing", "prefill_failures")
    return {name: sum(counters.get(name, {}).values()) for name in shown}


def _added(now: Mapping[str, float], before: Mapping[str, float]) -> dict[str, float]:
    return {label: value - before.get(label, 0) for label, value in now.items() if value != before.get(label, 0)}


def _labelled(counter: Mapping[Any, int]) -> dict[str, float]:
    labelled: dict[str, float] = {}
    for key, value in counter.items():
        parts = key if isinstance(key, tuple) else (key,)
        labelled[SEPARATOR.join(part.value for part in parts)] = value
    return labelled


def _by_peer(state: State) -> Numbers:
    news, size = state.peer_news, state.block_bytes
    return {
        name: {SEPARATOR.join((peer, purpose.value)): blocks * size for (peer, purpose), blocks in counts.items()}
        for name, counts in zip(BY_PEER, (news.received, news.written), strict=True)
    }


def _of_fields(counts: Any, names: Iterable[str]) -> dict[str, float]:
    return {name: getattr(counts, name) for name in names if getattr(counts, name)}


def _counters(state: State) -> Numbers:
    tally, size = state.tally, state.block_bytes
    numbers: Numbers = {
        name: _labelled(getattr(tally, name))
        for name in (
            *("wants_ended", "blocks_wanted", "blocks_received", "blocks_lost", "blocks_asked", "blocks_written"),
            *("blocks_missing", "blocks_offered", "blocks_declined"),
        )
    }
    numbers["bytes_received"] = {label: value * size for label, value in numbers["blocks_received"].items()}
    numbers["bytes_written"] = {label: value * size for label, value in numbers["blocks_written"].items()}
    numbers["messages_refused"] = _of_fields(tally, ("strangers", "misaddressed", "violations"))
    numbers["late_notifications"] = {"": tally.late_notifications} if tally.late_notifications else {}
    if state.network is not None:
        numbers["network_messages"] = _of_fields(state.network, (each.name for each in fields(state.network)))
    if state.tables is not None:
        numbers["peer_tables"] = _of_fields(state.tables, (each.name for each in fields(state.tables)))
    if state.asking is not None:
        numbers["prompts_local"] = _labelled(state.asking.local)
        numbers["prefill_calls"] = _labelled(state.asking.calls)
        numbers["prefill_failures"] = _labelled(state.asking.failures)
        numbers["prefills"] = _of_fields(state.asking, ("answered", "shared", "promoted"))
    return numbers


def _gauges(state: State) -> Numbers:
    held: Numbers = {each.name: {"": getattr(state.gauges, each.name)} for each in fields(state.gauges)}
    told = {
        "peers_connected": state.peers,
        "peers_refused": state.peers_refused,
        "healthy": not state.status.unhealthy,
        "draining": state.status.drain is not DrainStage.SERVING,
        "drained": state.status.drain is DrainStage.DRAINED,
    }
    fabric = state.fabric
    transport = SEPARATOR.join((fabric.backend, fabric.provider, str(fabric.devices)))
    return {**held, **{name: {"": int(value)} for name, value in told.items()}, "transport": {transport: 1}}
