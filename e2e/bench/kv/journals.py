# SPDX-License-Identifier: Apache-2.0
"""What the engines wrote down of each turn: who computed what, what moved, and when.

All engines are on one machine, so the times in their journals are of one clock.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from e2e.bench.kv.ways import Turn
from e2e.exchange.engines import BLOCK_SIZE, Engine
from tandem_connector.vllm.journal import Entry, read_journal


@dataclass
class Timeline:
    """One request at one engine. Times are of the machine's monotonic clock."""

    request: str
    arrived: float = 0.0
    """At the engine's process, before its scheduler."""
    computed: float = 0.0
    """The forward pass had run that filled its last full block."""
    loaded: float | None = None
    """The last of its wants had ended; None: it had none."""
    ended: float = 0.0
    account: dict[str, Any] = field(default_factory=dict)
    hashes: list[str] = field(default_factory=list)
    """Of the blocks that it filled."""


class EngineJournal:
    """One engine's, read."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._timelines: dict[str, Timeline] = {}
        self._unfinished: dict[int, list[Timeline]] = {}
        self._steps: list[float] = []
        self.landed: dict[str, float] = {}
        """When each block that was offered had entered the prefix cache, by its hash."""
        for entry in entries:
            self._read(entry)

    def _of(self, request: str) -> Timeline:
        return self._timelines.setdefault(request, Timeline(request))

    def _read(self, entry: Entry) -> None:
        if entry.kind not in {"arrived", "step_scheduled", "step_finished", "commands", "request_ended", "turn"}:
            return
        content = msgspec.json.decode(entry.content)
        match entry.kind:
            case "arrived":
                self._of(content["request"]).arrived = entry.at
            case "step_scheduled":
                self._steps.append(entry.at)
                self._scheduled(content)
            case "step_finished":
                for step in [step for step in self._unfinished if step <= content["step"]]:
                    for timeline in self._unfinished.pop(step):
                        timeline.computed = entry.at
            case "commands":
                self._commanded(content, entry.at)
            case "request_ended":
                self._of(content["request"]).ended = entry.at
            case "turn":
                self._of(content["request"]).account = content

    def _scheduled(self, content: dict[str, Any]) -> None:
        for fresh in content["fresh"]:
            timeline = self._of(fresh["request"])
            timeline.hashes += fresh["hashes"]
            self._unfinished.setdefault(content["step"], []).append(timeline)

    def _commanded(self, commands: list[tuple[str, dict[str, Any]]], at: float) -> None:
        for kind, command in commands:
            if kind == "LoadEnded":
                self._of(command["request"]).loaded = at
            elif kind == "LandingCommitted":
                self.landed |= dict.fromkeys(command["hashes"], at)

    def steps_before_loaded(self, timeline: Timeline) -> int:
        """How many steps the engine took from the request's arrival to the end of its last want, which the last of them told of."""
        return sum(timeline.arrived <= at <= (timeline.loaded or 0.0) for at in self._steps)

    def named(self, request: str) -> Timeline | None:
        """That of the request whose X-Request-Id was this; what prefill was asked for has decode's own id of it."""
        return next((line for name, line in self._timelines.items() if name.startswith(f"cmpl-{request}-0-")), None)


def journal_of(engine: Engine) -> EngineJournal:
    """What the engine has written down until now."""
    return EngineJournal(read_journal(engine.journal))


@dataclass(frozen=True)
class Exchanged:
    """One turn at both engines. Blocks and tokens; seconds."""

    turn: Turn
    computed_by_decode: int
    computed_by_prefill: int | None
    """None: prefill wasn't asked."""
    cached_by_prefill: int
    """Prompt tokens that prefill had in its own cache when it began: what came back meanwhile is among them."""
    forward_blocks: int
    fetched_blocks: int
    pushed_blocks: int
    to_prefill: float | None
    """From the request entering decode's engine to its prefill entering prefill's."""
    prefill: float | None
    """From there to the end of prefill's last forward pass."""
    wait_after_prefill: float | None
    """From there to the last block being at decode."""
    after_wait: float | None
    """From there to the first token being at the client."""
    to_commit: float | None
    """From the end of the turn to its last block being in prefill's cache."""


def exchanged(turn: Turn, decode: EngineJournal, prefill: EngineJournal) -> Exchanged:
    """What the journals say of a turn.

    Raises:
        LookupError: decode's knows nothing of it.
    """
    at_decode = decode.named(turn.request)
    if at_decode is None or not at_decode.account:
        raise LookupError(f"{turn.request} is not in decode's journal")
    at_prefill = prefill.named(at_decode.request)
    landed = [prefill.landed[block_hash] for block_hash in at_decode.hashes if block_hash in prefill.landed]
    received = at_decode.account["received"]
    there = at_prefill.account if at_prefill is not None else {}
    fetched = there.get("received", {}).get("reverse_fetch", 0)
    loaded = at_decode.loaded if at_prefill is not None else None
    return Exchanged(
        turn=turn,
        computed_by_decode=at_decode.account["computed"],
        computed_by_prefill=there.get("computed"),
        cached_by_prefill=there["prompt"] - there["computed"] - fetched if there else 0,
        forward_blocks=received.get("forward", 0) // BLOCK_SIZE,
        fetched_blocks=fetched // BLOCK_SIZE,
        pushed_blocks=len(landed),
        to_prefill=None if at_prefill is None else at_prefill.arrived - at_decode.arrived,
        prefill=None if at_prefill is None else at_prefill.computed - at_prefill.arrived,
        wait_after_prefill=None if at_prefill is None or loaded is None else loaded - at_prefill.computed,
        after_wait=None if loaded is None else turn.began + turn.seconds_to_first_token - loaded,
        to_commit=max(landed) - at_decode.ended if landed else None,
    )
