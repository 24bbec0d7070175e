# SPDX-License-Identifier: Apache-2.0
"""Holds conversations, turn after turn, in several ways."""

import time
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from e2e.bench.kv import client
from e2e.bench.kv.script import Conversation, Script
from e2e.bench.kv.ways import Turn, Way
from e2e.cluster.progress import Progress

SETTLE = 1.2
"""Seconds between two turns that are compared: a worker of vLLM spins for a second after each step, on a core that the
next one's engine may use."""
_seeds = count(1)


def held(
    ways: Sequence[Way], script: Script, model: Path, what: str, *, conversations: int, at_once: bool
) -> dict[str, list[list[Turn]]]:
    """The turns of so many conversations of each way, by the way's name.

    Args:
        ways: with several of them, each turn is taken in all ways, one right after the other, before the next one.
        script: what is said.
        model: the model's folder.
        what: a short name of it, for requests and for whoever watches.
        conversations: how many of each way.
        at_once: whether the same turn of all conversations is asked at the same time, or one after the other.
    """
    said = {way.name: [Conversation(next(_seeds) * 1_000_000, model) for _ in range(conversations)] for way in ways}
    turns: dict[str, list[list[Turn]]] = {way.name: [[] for _ in range(conversations)] for way in ways}
    with Progress(f"holding {what}") as progress, client.at_once(conversations if at_once else 1) as pool:
        for number, tokens in enumerate(script.asked):
            # Whoever begins is another one each time, so that nobody always comes after the same one.
            for way in [*ways[number % len(ways) :], *ways[: number % len(ways)]]:
                progress.update(f"turn {number + 1} of {len(script.asked)}, {way.name}")
                futures = [
                    pool.submit(way.take, each, f"{way.name}-{what}-{index}-{number}", number, tokens, script.output)
                    for index, each in enumerate(said[way.name])
                ]
                for index, future in enumerate(futures):
                    turns[way.name][index].append(future.result())
                if len(ways) > 1:
                    time.sleep(SETTLE)
    return turns
