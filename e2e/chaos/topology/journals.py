# SPDX-License-Identifier: Apache-2.0
"""What all engines wrote down: who was asked for blocks and when, what was handed over, and who computed how much of each turn."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from e2e.chaos.topology.clients import Turn
from e2e.exchange.engine import BLOCK_SIZE
from tandem_connector.contract.messages import Purpose
from tandem_connector.contract.types import EngineId, Role, pod_of
from tandem_connector.vllm.journal import Entry, previous, read_journal

_REQUEST = re.compile(r"churn-\d+")


@dataclass(frozen=True)
class Want:
    """Blocks that one engine asked another for."""

    at: float
    """Of the machine's monotonic clock."""
    peer: EngineId


@dataclass(frozen=True)
class Part:
    """An engine's part in a turn. Tokens."""

    pod: str
    """UID of the engine's."""
    prompt: int
    output: int
    computed: int
    is_prefill: bool
    """It was asked by another engine."""
    at: float
    """When it wrote this down, on the machine's monotonic clock."""


def _when(part: Part) -> float:
    return part.at


@dataclass
class Journals:
    """Of all engines."""

    wants: list[Want] = field(default_factory=list)
    parts: dict[str, list[Part]] = field(default_factory=dict)
    """By the request's name."""
    moves: int = 0
    """Times that an engine offered what it held to its heir, and was done with it."""
    written: Counter[Purpose] = field(default_factory=Counter)
    """Blocks that engines wrote into others, by what for."""

    @classmethod
    def of(cls, folder: Path) -> "Journals":
        """Those in a folder, named after their pods."""
        journals = cls()
        for path in sorted(folder.iterdir()):
            if path.suffix != ".1":
                before = previous(path)
                for each in (before, path) if before.exists() else (path,):
                    journals.read(path.name, read_journal(each))
        return journals

    def read(self, pod: str, entries: Iterable[Entry]) -> None:
        """Take in what the engine of this pod wrote down."""
        for entry in entries:
            if entry.kind == "commands":
                for kind, command in msgspec.json.decode(entry.content):
                    self._commanded(kind, command, entry.at)
            elif entry.kind == "turn":
                self._turn(pod, msgspec.json.decode(entry.content), entry.at)

    def _commanded(self, kind: str, command: dict[str, Any], at: float) -> None:
        match kind:
            case "ExpectWant":
                self.wants.append(Want(at, EngineId(command["peer"])))
            case "ServingEnded":
                self.written[Purpose(command["purpose"])] += command["written"]
            case "MoveEnded" if command["offered"]:
                self.moves += 1

    def _turn(self, pod: str, content: dict[str, Any], at: float) -> None:
        found = _REQUEST.search(content["request"])
        if found is not None:
            # What decode asks prefill for is a completion; the client's own request is a chat.
            is_prefill = content["request"].startswith("cmpl-")
            part = Part(pod, content["prompt"], content["output"], content["computed"], is_prefill, at)
            self.parts.setdefault(found[0], []).append(part)

    def part(self, request: str, role: Role) -> Part | None:
        """The part of an engine of this role, the last one's if there were several; None when none got to write it down."""
        wanted = role is Role.PREFILL
        return max((part for part in self.parts.get(request, ()) if part.is_prefill is wanted), default=None, key=_when)

    def computed(self, request: str) -> int:
        """Prompt tokens that were computed for it, by the engine that computed most of them: the other's were less than a block."""
        return max((part.computed for part in self.parts.get(request, ())), default=0)


@dataclass(frozen=True)
class Moved:
    """A turn whose conversation had to go on at another engine of a role. Tokens."""

    turn: Turn
    held: int
    """In full blocks of the conversation until then."""
    recomputed: int
    """Of these."""


def moved_turns(turns: Sequence[Turn], journals: Journals, ends: Mapping[str, float], role: Role) -> list[Moved]:
    """Turns that were the first ones after the end of the engine of this role that had had a part in the one before.

    Args:
        turns: in the order in which they ended.
        journals: all engines'.
        ends: by UID of each pod that was removed, when that was told.
        role: of the engine that ended.
    """
    before: dict[str, Turn] = {}
    found = []
    for turn in turns:
        last = before.get(turn.session)
        before[turn.session] = turn
        if last is None or turn.number != last.number + 1 or not turn.fresh:
            continue
        said, asked = journals.part(last.request, Role.DECODE), journals.part(turn.request, Role.DECODE)
        there, here = journals.part(last.request, role), journals.part(turn.request, role)
        if said is None or asked is None or there is None or ends.get(there.pod, turn.ended) >= turn.ended:
            continue
        if here is not None and here.pod == there.pod:
            continue
        # The last token that was said has no KV yet.
        held = (said.prompt + said.output - 1) // BLOCK_SIZE * BLOCK_SIZE
        found.append(Moved(turn, held, max(0, journals.computed(turn.request) - (asked.prompt - held))))
    return found


def stale(wants: Iterable[Want], gone: dict[str, float], within: float) -> list[Want]:
    """Wants of pods that had been gone for longer than so many seconds; `gone` has their times by UID."""
    return [want for want in wants if want.at > gone.get(pod_of(want.peer), want.at) + within]


def latest(wants: Iterable[Want], gone: dict[str, float]) -> float:
    """How long after the end of its pod an engine was asked for something, at most, in seconds; 0 if none was."""
    return max((want.at - gone.get(pod_of(want.peer), want.at) for want in wants), default=0.0)
