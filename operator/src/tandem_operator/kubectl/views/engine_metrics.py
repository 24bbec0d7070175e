# SPDX-License-Identifier: Apache-2.0
"""What flows are told from of an engine's `/metrics`: numbers at one time, and rates between two."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Final, TypeAlias

from prometheus_client.parser import text_string_to_metric_families

from tandem_operator.api.base import ApiModel

TOKENS: Final = "tandem_prompt_tokens_total"
RECEIVED: Final = "tandem_bytes_received_total"
WRITTEN: Final = "tandem_bytes_written_total"
WAITED: Final = "tandem_wait_seconds_sum"
WAITS: Final = "tandem_wait_seconds_count"
COUNTERS: Final[Mapping[str, str]] = {TOKENS: "source", RECEIVED: "purpose", WRITTEN: "purpose", WAITED: "", WAITS: ""}
"""With the label that their values are told apart by, if any."""
RECEIVED_FROM: Final = "tandem_peer_bytes_received_total"
WRITTEN_TO: Final = "tandem_peer_bytes_written_total"
BY_PEER: Final = (RECEIVED_FROM, WRITTEN_TO)
"""Counters whose series come and go with the engine's peers; told apart by the peer's pod and the purpose."""
GAUGES: Final[Mapping[str, str]] = {
    "wants_open": "tandem_wants_open",
    "wants_served": "tandem_wants_served",
    "hashes_awaited": "tandem_hashes_awaited",
    "peers_connected": "tandem_peers_connected",
    "requests_running": "vllm:num_requests_running",
    "requests_waiting": "vllm:num_requests_waiting",
}
"""Names of metrics by the fields of `Standing`."""
_NAMES: Final = (*COUNTERS, *BY_PEER, *GAUGES.values())
_OWN: Final = "tandem_"

ByPeer: TypeAlias = Mapping[str, Mapping[str, float]]
"""Bytes of KV, by the peer's pod and by purpose."""


class Standing(ApiModel):
    """What an engine is at, on all its data-parallel ranks."""

    wants_open: int
    """Own wants that somebody waits for."""
    wants_served: int
    """Peers' wants that are not over."""
    hashes_awaited: int
    """Blocks that peers wait for and nobody has computed yet."""
    peers_connected: int
    requests_running: int
    requests_waiting: int


class Rates(ApiModel):
    """What an engine did between two looks, by the second."""

    seconds: float
    """Between them."""
    tokens: Mapping[str, float]
    """Prompt tokens of turns that ended, by where their KV came from."""
    received: Mapping[str, float]
    """Bytes of KV that peers wrote into it, by purpose."""
    written: Mapping[str, float]
    """Bytes of KV that it wrote into peers, by purpose."""
    received_from: ByPeer
    """The same by peer; of peers that the engine tells of now."""
    written_to: ByPeer
    waits: float
    """Requests that had waited for other engines' blocks."""
    mean_wait: float | None
    """Seconds that each of these had waited; None: none had."""


@dataclass(frozen=True)
class Reading:
    """One answer of an engine."""

    at: float
    """Seconds, of a clock that only goes forward."""
    counters: Mapping[str, Mapping[str, float]]
    """By name and by the value of their label, of all data-parallel ranks."""
    by_peer: Mapping[str, ByPeer]
    """By name, each of `BY_PEER`."""
    standing: Standing


class Unreadable(ValueError):  # noqa: N818 -- says what the answer is
    """An answer that nothing can be told from; the text says why."""


def reading(text: str, at: float) -> Reading:
    """What an engine answered at that time.

    Raises:
        Unreadable: it is no engine's that exchanges KV.
    """
    # An engine tells thousands of other numbers.
    lines = [line for line in text.splitlines() if line.startswith(_NAMES)]
    if not any(line.startswith(_OWN) for line in lines):
        raise Unreadable("it tells nothing of an exchange of KV: it isn't one with Push, or has just begun")
    counters: dict[str, dict[str, float]] = {name: defaultdict(float) for name in COUNTERS}
    by_peer: dict[str, dict[str, dict[str, float]]] = {
        name: defaultdict(lambda: defaultdict(float)) for name in BY_PEER
    }
    gauges: dict[str, float] = defaultdict(float)
    try:
        for family in text_string_to_metric_families("\n".join(lines) + "\n"):
            for sample in family.samples:
                value = float(sample.value)
                if sample.name in BY_PEER and isfinite(value):
                    peer, purpose = (sample.labels.get(label, "") for label in ("peer", "purpose"))
                    by_peer[sample.name][peer][purpose] += value
                elif sample.name in COUNTERS and isfinite(value):
                    counters[sample.name][sample.labels.get(COUNTERS[sample.name], "")] += value
                elif isfinite(value):
                    gauges[sample.name] += value
    except ValueError as error:
        raise Unreadable(f"what it tells can't be read: {error}") from error
    standing = Standing.model_validate({field: int(gauges[name]) for field, name in GAUGES.items()})
    return Reading(at=at, counters=counters, by_peer=by_peer, standing=standing)


def rates(before: Reading, now: Reading) -> Rates | None:
    """What was done between two readings of a pod; None: that can't be told, since its engine began anew."""
    seconds = now.at - before.at
    added = {
        name: {label: value - before.counters[name].get(label, 0) for label, value in values.items()}
        for name, values in now.counters.items()
    }
    fell = any(value < 0 for values in added.values() for value in values.values())
    lost = any(before.counters[name].keys() - values.keys() for name, values in now.counters.items())
    if seconds <= 0 or fell or lost:
        return None
    by_second = {
        name: {label: value / seconds for label, value in sorted(values.items())} for name, values in added.items()
    }
    waits, waited = sum(added[WAITS].values()), sum(added[WAITED].values())
    return Rates(
        seconds=seconds,
        tokens=by_second[TOKENS],
        received=by_second[RECEIVED],
        written=by_second[WRITTEN],
        received_from=_by_second(before.by_peer[RECEIVED_FROM], now.by_peer[RECEIVED_FROM], seconds),
        written_to=_by_second(before.by_peer[WRITTEN_TO], now.by_peer[WRITTEN_TO], seconds),
        waits=waits / seconds,
        mean_wait=waited / waits if waits else None,
    )


def _by_second(before: ByPeer, now: ByPeer, seconds: float) -> ByPeer:
    """Series of a peer that was gone and is back begin at nothing."""
    rates: dict[str, dict[str, float]] = {}
    for peer, values in sorted(now.items()):
        known = before.get(peer, {})
        added = {why: (value, value - known.get(why, 0)) for why, value in sorted(values.items())}
        rates[peer] = {why: (grown if grown >= 0 else value) / seconds for why, (value, grown) in added.items()}
    return rates
