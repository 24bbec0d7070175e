# SPDX-License-Identifier: Apache-2.0
"""What is measured beside conversations: engines at rest, a decode engine that waits, and one that is busy."""

import statistics
import time
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path

from e2e.bench.figure import figure
from e2e.bench.kv.client import at_once, complete
from e2e.bench.kv.holding import SETTLE
from e2e.bench.kv.journals import journal_of
from e2e.exchange.engines import Engine
from e2e.exchange.prompts import Prompt

STREAMS = 8
"""That decode writes while it is asked for something else."""
PROMPT = 1_024
SHORT = 48
_seeds = count(900_000_000)
_names = count(1)


def _ids(tokens: int, model: Path) -> list[int]:
    return Prompt(next(_seeds), tokens).ids(model)


def at_rest(engines: Mapping[str, Engine], seconds: float) -> None:
    """CPU of whole engines, their servers included, that have peers and have offered what they computed."""
    time.sleep(2 * SETTLE)
    before = {name: engine.cpu_seconds() for name, engine in engines.items()}
    time.sleep(seconds)
    for name, engine in engines.items():
        figure(f"idle_{name}", 100 * (engine.cpu_seconds() - before[name]) / seconds, "% of a core")


def waiting_beside(prefill: Engine, decode: Engine, model: Path, pairs: int) -> None:
    """How much slower prefill is with decode waiting for it on the same machine: the same length, asked directly."""
    requests: list[tuple[str, str]] = []
    for number in range(pairs + 1):
        pair = (f"direct-{number}", f"waited-{number}")
        for request, engine in _in_turns(number, pair, (prefill, decode)):
            complete(engine.url, request, _ids(PROMPT, model), output=1)
            time.sleep(SETTLE)
        requests.append(pair)
    at_prefill, at_decode = journal_of(prefill), journal_of(decode)
    ratios, direct, steps = [], [], []
    for alone, waited in requests[1:]:
        one, asked = at_prefill.named(alone), at_decode.named(waited)
        other = at_prefill.named(asked.request) if asked is not None else None
        if one is None or asked is None or other is None:
            raise LookupError(f"{alone} or {waited} is not in the journals")
        steps.append(at_decode.steps_before_loaded(asked))
        direct.append(one.computed - one.arrived)
        ratios.append((other.computed - other.arrived) / direct[-1])
    figure(f"prefill_alone_{PROMPT}_tokens", statistics.median(direct), "s")
    figure("prefill_with_decode_waiting_of_alone", statistics.median(ratios), "ratio")
    figure("decode_steps_while_waiting", statistics.median(steps), "steps")


def _in_turns(number: int, requests: tuple[str, str], engines: tuple[Engine, Engine]) -> Iterator[tuple[str, Engine]]:
    both = list(zip(requests, engines, strict=True))
    yield from reversed(both) if number % 2 else both


def asked_while_busy(prefill: Engine, decode: Engine, model: Path, requests: int) -> None:
    """From a request entering decode to its prefill entering prefill, while decode writes `STREAMS` answers."""
    figure("to_prefill_while_idle", _to_prefill(prefill, decode, model, requests), "s")
    name = next(_names)
    with at_once(STREAMS) as pool:
        # As long as it takes; their clients go when the rest is done.
        streams = [
            pool.submit(complete, decode.url, f"stream-{name}-{number}", _ids(SHORT, model), output=requests * 60)
            for number in range(STREAMS)
        ]
        time.sleep(2.0)
        busy = _to_prefill(prefill, decode, model, requests)
        if any(stream.done() for stream in streams):
            raise RuntimeError("the streams ended before what was to be measured beside them")
        for stream in streams:
            stream.result()
    figure(f"to_prefill_while_writing_{STREAMS}_answers", busy, "s")


def _to_prefill(prefill: Engine, decode: Engine, model: Path, requests: int) -> float:
    names = [f"asked-{next(_names)}" for _ in range(requests)]
    for name in names:
        complete(decode.url, name, _ids(PROMPT // 2, model), output=1)
    at_prefill, at_decode = journal_of(prefill), journal_of(decode)
    took = []
    for name in names:
        asked = at_decode.named(name)
        there = at_prefill.named(asked.request) if asked is not None else None
        if asked is None or there is None:
            raise LookupError(f"{name} is not in the journals")
        took.append(there.arrived - asked.arrived)
    return statistics.median(took)
