# SPDX-License-Identifier: Apache-2.0
"""Results as lines: `figure NAME VALUE UNIT`. A ratio is the median over turns that were alike, each divided by its like."""

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from e2e.bench.figure import figure
from e2e.bench.kv.goals import balances
from e2e.bench.kv.journals import Exchanged
from e2e.bench.kv.ways import Turn

Conversations = Sequence[Sequence[Turn]]


@dataclass
class Results:
    """All turns of all ways."""

    turns: dict[tuple[str, str], Conversations] = field(default_factory=dict)
    """By what was held, and the way."""

    def print_way(self, phase: str, way: str) -> None:
        """What was computed, and when the first tokens came."""
        turns = [turn for conversation in self.turns[phase, way] for turn in conversation]
        figure(f"{phase}_{way}_prompt_tokens", sum(turn.prompt for turn in turns), "tokens")
        figure(f"{phase}_{way}_new_tokens", sum(turn.prompt - turn.held_before for turn in turns), "tokens")
        figure(f"{phase}_{way}_computed", sum(turn.computed + turn.computed_by_prefill for turn in turns), "tokens")
        for number, same in enumerate(zip(*self.turns[phase, way], strict=True)):
            seconds = statistics.median(turn.seconds_to_first_token for turn in same)
            figure(f"{phase}_{way}_turn_{number + 1}_seconds_to_first_token", seconds, "s")
        figure(f"{phase}_{way}_seconds_to_first_token", _median(_later(turns), _ttft), "s")

    def print_ratio(self, phase: str, way: str, other: str) -> None:
        """Time to the first token in one way, of that in another, from the second turn on."""
        if (phase, way) not in self.turns or (phase, other) not in self.turns:
            return
        ratios: dict[int, list[float]] = {}
        for ours, theirs in zip(self.turns[phase, way], self.turns[phase, other], strict=True):
            for one, like in zip(ours, theirs, strict=True):
                ratios.setdefault(one.number, []).append(one.seconds_to_first_token / like.seconds_to_first_token)
        of_turns = [statistics.median(of_turn) for of_turn in ratios.values()]
        figure(f"{phase}_first_turn_{way}_of_{other}", of_turns[0], "ratio")
        all_later = [ratio for number, of_turn in ratios.items() if number for ratio in of_turn]
        figure(f"{phase}_later_turns_{way}_of_{other}", statistics.median(all_later), "ratio")
        figure(f"{phase}_slowest_turn_{way}_of_{other}", max(of_turns[1:]), "ratio")


def print_exchange(phase: str, way: str, conversations: Sequence[Sequence[Exchanged]]) -> None:
    """What Tandem's journals say: tokens beyond what had to be, blocks moved of those missing, and the times between."""
    turns = [each for turns in conversations for each in turns]
    balanced = [balance for each in conversations for balance in balances(each)]
    later = [balance for balance in balanced if balance.exchanged.turn.number]
    name = f"{phase}_{way}"
    by_prefill = sum(each.computed_by_prefill or 0 for each in turns)
    figure(f"{name}_computed_by_prefill", by_prefill, "tokens")
    figure(f"{name}_computed_by_decode", sum(each.computed_by_decode for each in turns), "tokens")
    figure(f"{name}_prefills", sum(each.computed_by_prefill is not None for each in turns), "turns")
    figure(f"{name}_most_beyond_at_prefill", max(each.beyond_at_prefill for each in later), "tokens a turn")
    figure(f"{name}_most_beyond_at_decode", max(each.beyond_at_decode for each in later), "tokens a turn")
    for way_of, moved, missing in (
        ("forward", [each.forward_blocks for each in turns], [each.forward_missing for each in balanced]),
        ("fetched", [each.fetched_blocks for each in turns], [each.fetch_missing for each in balanced]),
        ("pushed", [each.pushed_blocks for each in turns], [each.push_missing for each in balanced]),
    ):
        figure(f"{name}_{way_of}", sum(moved), "blocks")
        figure(f"{name}_{way_of}_missing", sum(missing), "blocks")
    for what, seconds in (
        ("decode_to_prefill", [each.to_prefill for each in turns]),
        ("prefill", [each.prefill for each in turns]),
        ("wait_after_prefill", [each.wait_after_prefill for each in turns]),
        ("after_wait", [each.after_wait for each in turns]),
        ("turn_end_to_commit", [each.to_commit for each in turns]),
    ):
        known = [each for each in seconds if each is not None]
        if known:
            figure(f"{name}_{what}", statistics.median(known), "s")
            figure(f"{name}_{what}_worst", max(known), "s")


def _later(turns: Iterable[Turn]) -> list[Turn]:
    return [turn for turn in turns if turn.number]


def _ttft(turn: Turn) -> float:
    return turn.seconds_to_first_token


def _median(turns: Sequence[Turn], of: Callable[[Turn], float]) -> float:
    return statistics.median(of(turn) for turn in turns)
