# SPDX-License-Identifier: Apache-2.0
"""What a run comes to: its figures, and what of it must not be."""

import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from e2e.chaos.topology.changes import Change
from e2e.chaos.topology.clients import End, Turn
from e2e.chaos.topology.journals import Journals, latest, moved_turns, stale
from e2e.chaos.topology.pods import KILLED, Life
from tandem_connector.contract.messages import Purpose
from tandem_connector.contract.types import Role

STALE_AFTER = 10.0
"""Seconds after the end of a pod in which its peers may still believe in it: a process that is gone without a word counts as silent
after five, and the kubelet takes some for a file when a machine has no core to spare."""


@dataclass(frozen=True)
class Run:
    """All that was seen of it."""

    turns: Sequence[Turn]
    changes: Sequence[Change]
    undone: Sequence[str]
    """Changes that could not be made, and why."""
    lives: Sequence[Life]
    journals: Journals
    unsettled: str | None
    """What engines didn't know, or held, when nothing had changed for long; None: nothing."""
    settled_after: float
    """Seconds until all was as it should be, once all engines were ready."""

    @property
    def removed(self) -> list[Life]:
        """Pods that were removed while their engines served."""
        return [life for life in self.lives if life.deleted is not None and life.was_ready]

    @property
    def gone(self) -> dict[str, float]:
        """By UID, when each pod was gone."""
        return {life.uid: life.gone for life in self.lives if life.gone is not None}

    def failures(self) -> Iterator[str]:
        """What must not have been, in words."""
        for turn in self.turns:
            if turn.end is not End.RIGHT:
                yield f"{turn.end}: {turn.why}"
        for life in self.lives:
            if life.restarts or life.exit_code == KILLED:
                yield f"crashed: {life.name} ({life.uid}) restarted {life.restarts} times, exit code {life.exit_code}"
        for want in stale(self.journals.wants, self.gone, STALE_AFTER):
            yield f"stale: {want.peer} was asked for blocks {latest([want], self.gone):.1f} s after its pod was gone"
        for change in self.undone:
            yield f"undone: {change}"
        if self.unsettled is not None:
            yield f"unsettled: {self.unsettled}"
        for role in Role:
            if not any(life.role is role for life in self.removed):
                yield f"nothing shown: no {role} engine was removed"
        if not any(turn.end is End.RIGHT for turn in self.turns):
            yield "nothing shown: no turn was answered"

    def figures(self) -> list[str]:
        """Everything that was counted and measured, one number in a line."""
        ends = Counter(turn.end for turn in self.turns)
        figures: list[tuple[str, str, str]] = [
            ("turns_answered", str(ends[End.RIGHT]), "turns"),
            *((f"turns_{end}", str(ends[end]), "turns") for end in (End.WRONG, End.BROKEN, End.HUNG)),
            ("turns_retried_by_client", str(sum(turn.retries > 0 for turn in self.turns)), "turns"),
            ("longest_turn", f"{max((turn.ended - turn.began for turn in self.turns), default=0.0):.1f}", "s"),
        ]
        figures += [(name, str(count), "changes") for name, count in sorted(self._changes().items())]
        for role in Role:
            took = [life.took for life in self.removed if life.role is role and life.took is not None]
            figures.append((f"removals_{role}", str(len(took)), "engines"))
            if took:
                figures.append((f"removal_to_gone_{role}_median", f"{statistics.median(took):.1f}", "s"))
                figures.append((f"removal_to_gone_{role}_most", f"{max(took):.1f}", "s"))
        figures += self._moved()
        crashed = sum(life.restarts > 0 for life in self.lives)
        killed = sum(life.exit_code == KILLED for life in self.lives)
        wants = self.journals.wants
        figures += [
            ("engines_crashed", str(crashed), "engines"),
            ("engines_killed_by_grace_period", str(killed), "engines"),
            ("wants", str(len(wants)), "wants"),
            ("wants_of_stale_peers", str(len(stale(wants, self.gone, STALE_AFTER))), "wants"),
            ("latest_want_of_a_gone_peer", f"{latest(wants, self.gone):.1f}", "s"),
            ("tables_settled_after", f"{self.settled_after:.1f}", "s"),
        ]
        return [f"figure chaos_topology_{name} {value} {unit}" for name, value, unit in figures]

    def _changes(self) -> Counter[str]:
        return Counter(f"changes_{change.role}_{change.kind}" for change in self.changes)

    def _moved(self) -> Iterator[tuple[str, str, str]]:
        written = self.journals.written
        yield from ((f"blocks_{purpose}", str(written[purpose]), "blocks") for purpose in Purpose)
        yield "moves", str(self.journals.moves), "moves"
        for role in Role:
            yield from self._recomputed(role)

    def _recomputed(self, role: Role) -> Iterator[tuple[str, str, str]]:
        ends = {life.uid: life.deleted for life in self.removed if life.role is role and life.deleted is not None}
        moved = moved_turns(self.turns, self.journals, ends, role)
        recomputed = [turn.recomputed for turn in moved]
        conversations = {turn.turn.session for turn in moved}
        yield f"first_turns_after_removal_of_{role}", str(len(moved)), "turns"
        yield f"conversations_that_lost_their_{role}", str(len(conversations)), "conversations"
        yield f"first_turns_that_recomputed_after_{role}", str(sum(tokens > 0 for tokens in recomputed)), "turns"
        yield f"tokens_held_before_removal_of_{role}", str(sum(turn.held for turn in moved)), "tokens"
        yield f"tokens_recomputed_after_removal_of_{role}", str(sum(recomputed)), "tokens"
