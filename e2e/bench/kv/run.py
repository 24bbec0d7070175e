# SPDX-License-Identifier: Apache-2.0
"""Runs casts one after the other, and says what was measured."""

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from e2e.bench.figure import figure
from e2e.bench.kv.asides import asked_while_busy, at_rest, waiting_beside
from e2e.bench.kv.cast import NO_REVERSE, PLAIN, REVERSE, THRESHOLD, Cast
from e2e.bench.kv.figures import Results, print_exchange
from e2e.bench.kv.goals import all_missed
from e2e.bench.kv.holding import held
from e2e.bench.kv.journals import exchanged, journal_of
from e2e.bench.kv.scale import AT_ONCE, FORGETTING, Scale
from e2e.bench.kv.script import Script
from e2e.bench.kv.spinning import let_spinning_threads_yield
from e2e.bench.kv.ways import Turn, Way
from e2e.engine.environment import EngineEnvironment
from e2e.exchange.engines import BLOCK_SIZE, Engine, Engines, running
from e2e.exchange.numbers import value_of

ALONE, TOGETHER, FORGETS = "alone", f"{AT_ONCE}_at_once", "forgetting"
_WARM_UP = Script((2 * BLOCK_SIZE, BLOCK_SIZE), 2)
"""Connects engines, and touches what is made at its first use."""
_REST = 20.0
_LAST_COMMIT = 2.0
"""Seconds in which what the last turns added has come back to prefill."""
_PURPOSES = ("forward", "reverse_push", "reverse_fetch")


def run_cast(cast: Cast, scale: Scale, environment: EngineEnvironment, folder: Path, results: Results) -> list[str]:
    """Start the cast, hold the conversations, print what was measured; the goals that were missed, in words."""
    model = scale.model
    with running(environment, model, folder) as engines:
        engines.start(**cast.specs(scale))
        engines.wait_for_connections()
        if cast.upstream:
            for name in ("prefill", cast.upstream):
                figure(
                    f"{cast.upstream}_spinning_threads_of_{name}", let_spinning_threads_yield(engines[name]), "threads"
                )
        ways = cast.ways(engines)
        held(ways, _WARM_UP, model, "warm-up", conversations=1, at_once=False)
        missed = []
        for phase, of_ways in _phases(cast, ways, scale):
            time.sleep(_LAST_COMMIT)
            results.turns |= {(phase, way): turns for way, turns in of_ways.items()}
            for way in of_ways:
                results.print_way(phase, way)
            missed += _exchange(cast, engines, phase, of_ways)
        missed += _moved(cast, engines, scale.block_bytes)
        if cast.asides:
            prefill, decode = engines["prefill"], engines[REVERSE]
            waiting_beside(prefill, decode, model, scale.pairs)
            asked_while_busy(prefill, decode, model, scale.pairs)
            at_rest({PLAIN: engines[PLAIN], "prefill": prefill, "decode": decode}, _REST)
        return missed


def _phases(cast: Cast, ways: Sequence[Way], scale: Scale) -> Iterator[tuple[str, dict[str, list[list[Turn]]]]]:
    if cast.forgets:
        yield FORGETS, held(ways, scale.forgetting, scale.model, FORGETS, conversations=FORGETTING, at_once=False)
        return
    yield ALONE, held(ways, scale.alone, scale.model, ALONE, conversations=1, at_once=False)
    # One way after the other, so that the next turn begins as soon as the last one has ended.
    together: dict[str, list[list[Turn]]] = {}
    for way in ways:
        together |= held([way], scale.at_once, scale.model, TOGETHER, conversations=AT_ONCE, at_once=True)
    yield TOGETHER, together


def _exchange(cast: Cast, engines: Engines, phase: str, of_ways: dict[str, list[list[Turn]]]) -> list[str]:
    """Print what Tandem's journals say of the turns; the goals that were missed."""
    if not cast.tandem:
        return []
    missed, at_prefill = [], journal_of(engines["prefill"])
    for way in cast.tandem:
        at_decode = journal_of(engines[way])
        seen = [[exchanged(turn, at_decode, at_prefill) for turn in turns] for turns in of_ways[way]]
        print_exchange(phase, way, seen)
        if way != NO_REVERSE:
            missed += [f"{phase}: {what}" for what in all_missed(seen, forgets=cast.forgets)]
    return missed


def _moved(cast: Cast, engines: Engines, block_bytes: int) -> list[str]:
    """Print how many bytes were moved in all, in each direction; the goals that were missed."""
    if cast.tandem:
        return _bytes(engines["prefill"], [engines[way] for way in cast.tandem], block_bytes)
    name = f"{cast.upstream}{'_forgetting' if cast.forgets else ''}"
    for direction, engine in (("forward", engines[cast.upstream]), ("reverse", engines["prefill"])):
        figure(f"{name}_moved_{direction}", value_of(engine.metrics(), "vllm:nixl_bytes_transferred_sum"), "B")
    return []


def _bytes(prefill: Engine, decodes: Sequence[Engine], block_bytes: int) -> list[str]:
    """Whether as many bytes were received as written, and as the turns' accounts have; the goals that were missed."""
    at_prefill, at_decodes = prefill.metrics(), [decode.metrics() for decode in decodes]
    missed = []
    for purpose in _PURPOSES:
        forward = purpose == "forward"
        writers, receivers = ([at_prefill], at_decodes) if forward else (at_decodes, [at_prefill])
        written = sum(value_of(text, "tandem_bytes_written_total", purpose=purpose) for text in writers)
        received = sum(value_of(text, "tandem_bytes_received_total", purpose=purpose) for text in receivers)
        wanted = sum(value_of(text, "tandem_blocks_wanted_total", purpose=purpose) for text in receivers) * block_bytes
        figure(f"bytes_{purpose}", received, "B")
        if not written == received == wanted:
            missed.append(f"{purpose}: {wanted:.0f} bytes wanted, {received:.0f} received, {written:.0f} written")
    return missed


def print_ratios(results: Results) -> None:
    """Of times to the first token, turn by turn."""
    for phase in (ALONE, TOGETHER, FORGETS):
        for way in (REVERSE, THRESHOLD):
            for other in ("no_reverse", "pull", "bidirectional", "plain"):
                results.print_ratio(phase, way, other)
    sys.stdout.flush()
