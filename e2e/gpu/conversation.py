# SPDX-License-Identifier: Apache-2.0
"""A conversation over a prefill and a decode engine, and all that must be true of it."""

import time
import urllib.error
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from e2e.cluster.interface import GaveUpError
from e2e.engine.environment import EngineEnvironment
from e2e.engine.model import Shape
from e2e.exchange.afterwards import nothing_is_held
from e2e.exchange.engines import BLOCK_SIZE, Engine, Engines, EngineSpec, running
from e2e.exchange.likeness import Step, difference, greatest_difference, steps
from e2e.exchange.prompts import Prompt
from e2e.gpu.devices import Kind
from e2e.gpu.proof import Finding, SeenTurn, Totals, findings
from tandem_connector.contract.types import Role

TURNS: Final = ((800, 97), (100, 96), (100, 96))
"""New tokens of each prompt, and tokens of its answer. The first answer ends so that its last but one token fills a block:
with asynchronous scheduling that block's name is known only when no step of the request follows."""
_STEP: Final = ("--max-num-batched-tokens=512",)
"""So that the first prompt is written in two parts."""
SETTLED_WITHIN: Final = 10.0
"""Seconds."""


@dataclass(frozen=True)
class Asked:
    """A prompt and what was answered."""

    prompt: Sequence[int]
    answer: Sequence[Step]


def figure(name: str, value: float, unit: str) -> None:
    """Print a result."""
    print(f"figure {name} {value:.4g} {unit}", flush=True)


def prove(kind: Kind, environment: EngineEnvironment, model: Path, folder: Path) -> Iterator[Finding]:
    """Start the engines, hold the conversation, and compare it with a plain engine's; prints figures meanwhile.

    Args:
        kind: of device.
        environment: with engines for it.
        model: the small model's folder, of the default shape.
        folder: where the engines' logs go.

    Raises:
        AssertionError: an engine ended.
        GaveUpError: an engine did not start, or the two did not find each other.
        urllib.error.URLError: an engine did not answer.
    """
    shape = Shape()
    block_bytes = BLOCK_SIZE * 2 * shape.layers * shape.kv_heads * shape.head * kind.number_bytes
    with running(environment, model, folder) as engines:
        began = time.monotonic()
        prefill, decode = _pair(engines, kind)
        figure("start_of_two_engines", time.monotonic() - began, "s")
        for engine in (prefill, decode):
            log = engine.log.read_text(errors="replace")
            yield Finding(f"{engine.name}: KV in {kind.memory}", True, f"memory={kind.memory} " in log)
            overlap = f"steps_at_one_time={kind.steps_at_one_time}\n"
            yield Finding(f"{engine.name}: {kind.steps_at_one_time} steps at one time", True, overlap in log)
        talk = list(_talk(prefill, decode, model))
        yield from findings([seen for _, seen in talk], BLOCK_SIZE, block_bytes)
        yield Finding("no block is held afterwards", "", _held(prefill, decode))
    with running(environment, model, folder) as engines:
        plain = engines.start(plain=EngineSpec(None, device=kind.device, arguments=_STEP))["plain"]
        yield from _compared(plain, [asked for asked, _ in talk], kind, model)


def _spec(role: Role, core: str, kind: Kind) -> EngineSpec:
    return EngineSpec(
        role,
        core=core,
        device=kind.device,
        arguments=_STEP,
        extra={"disaggregate_above_tokens": BLOCK_SIZE},
    )


def _pair(engines: Engines, kind: Kind) -> tuple[Engine, Engine]:
    specs = {"prefill": _spec(Role.PREFILL, "0", kind), "decode": _spec(Role.DECODE, "1", kind)}
    for together in [specs] if kind.starts_together else [{name: spec} for name, spec in specs.items()]:
        engines.start(**together)
    engines.wait_for_connections()
    return engines["prefill"], engines["decode"]


def _talk(prefill: Engine, decode: Engine, model: Path) -> Iterator[tuple[Asked, SeenTurn]]:
    ids: list[int] = []
    for number, (new, output) in enumerate(TURNS, start=1):
        ids = [*ids, *Prompt(number, new).ids(model)]
        before = _totals(prefill, decode)
        began = time.monotonic()
        answer = steps(decode, ids, output=output)
        figure(f"turn_{number}", time.monotonic() - began, "s")
        totals = _settled(prefill, decode, before, len(ids)).since(before)
        yield Asked(ids, answer), SeenTurn(len(ids), len(answer), totals)
        ids = [*ids, *(step.token for step in answer)]


def _totals(prefill: Engine, decode: Engine) -> Totals:
    return Totals.of(prefill.metrics(), decode.metrics())


def _settled(prefill: Engine, decode: Engine, before: Totals, prompt: int) -> Totals:
    """The totals once the turn is accounted for and what was sent has arrived; after ten seconds as they are."""
    end = time.monotonic() + SETTLED_WITHIN
    totals = _totals(prefill, decode)
    while time.monotonic() < end:
        time.sleep(0.5)
        last, totals = totals, _totals(prefill, decode)
        accounted = totals.since(before).decode.prompt >= prompt
        arrived = totals.sent_back == totals.prefill.received_bytes
        if last == totals and accounted and arrived:
            break
    return totals


def _held(*engines: Engine) -> str:
    """What is wrong; nothing if no block is held."""
    try:
        nothing_is_held(*engines)
    except (GaveUpError, urllib.error.URLError) as error:
        return str(error)
    return ""


def _compared(plain: Engine, talk: Sequence[Asked], kind: Kind, model: Path) -> Iterator[Finding]:
    """Each answer against that of an engine without the connector, and one that must not be the same."""
    greatest = 0.0
    for number, asked in enumerate(talk, start=1):
        expected = steps(plain, list(asked.prompt), output=len(asked.answer))
        greatest = max(greatest, greatest_difference(expected, asked.answer))
        yield Finding(
            f"turn {number}: a plain engine's answer", None, difference(expected, asked.answer, kind.rounding)
        )
    figure("greatest_difference_of_log_probabilities", greatest, "")
    last = talk[-1]
    other = [*Prompt(99, BLOCK_SIZE).ids(model), *last.prompt[BLOCK_SIZE:]]
    wrong = difference(steps(plain, other, output=len(last.answer)), last.answer, kind.rounding)
    yield Finding("another first block would have been noticed", True, wrong is not None)
