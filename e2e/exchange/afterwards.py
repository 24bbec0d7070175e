# SPDX-License-Identifier: Apache-2.0
"""What must hold after anything has happened to an engine: it answers, is healthy, and holds no block for anybody."""

from typing import Final

from e2e.cluster.interface import GaveUpError
from e2e.cluster.progress import wait_until
from e2e.exchange.engines import Engine
from e2e.exchange.numbers import value_of
from e2e.exchange.prompts import ask

_HELD: Final = (
    *("wants_open", "wants_held", "blocks_quarantined", "blocks_landing", "blocks_pinned", "wants_served"),
    "hashes_awaited",
)


def nothing_is_held(*engines: Engine, within: float = 15.0) -> None:
    """Wait until none of these engines holds a block for another one, or a request, and all are healthy.

    Their prefix caches are empty afterwards.

    Raises:
        GaveUpError: one still holds something.
        urllib.error.URLError: one doesn't answer.
    """
    for engine in engines:
        _wait_until_free(engine, within)
        all_blocks_free(engine, within)


def metrics_now(engine: Engine) -> str:
    """Its metrics as they are now. They go with steps: those of an engine that computes nothing are of long ago."""
    for rank in engine.ranks:
        ask(engine, [400, 401, 402], output=1, rank=rank)
    return engine.metrics()


def _wait_until_free(engine: Engine, within: float) -> None:
    held: list[str] = []

    def is_free() -> bool:
        held[:] = _what_it_holds(engine)
        return not held

    try:
        wait_until(f"{engine.name} to hold nothing", is_free, within)
    except GaveUpError as error:
        raise GaveUpError(f"{error}: {', '.join(held)}") from error


def _what_it_holds(engine: Engine) -> list[str]:
    metrics = metrics_now(engine)
    said = {name: value_of(metrics, f"tandem_{name}") for name in _HELD}
    held = [f"{name} is {value:.0f}" for name, value in said.items() if value]
    if value_of(metrics, "tandem_healthy") != len(engine.ranks):
        held.append("it is not healthy")
    return held


def all_blocks_free(engine: Engine, within: float) -> None:
    """Reset the prefix cache, which can be done only when nobody references a block. What peers wait for is cancelled.

    Raises:
        GaveUpError: it can't be done within so many seconds.
    """
    wait_until(f"{engine.name}'s blocks to be free", lambda: engine.post("/reset_prefix_cache")["success"], within)
