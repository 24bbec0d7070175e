# SPDX-License-Identifier: Apache-2.0
"""The scripted conversation over prefill and decode, and with a plain engine of the same kind."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from e2e.conversation import Turn, held
from e2e.engine.environment import build_environment
from e2e.engine.model import MODEL_NAME
from e2e.exchange.engines import Engine, EngineSpec, running
from e2e.suite.exchange.conversing import Held, converse
from tandem_connector.contract.types import Role


@dataclass(frozen=True)
class Talk:
    """What was said over both, and by a plain engine."""

    expected: list[Turn]
    held: Held
    prefill: Engine
    decode: Engine


@dataclass(frozen=True)
class Kind:
    """What all three engines have in common."""

    model: Path
    block: int
    """Tokens per KV block."""
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    tensor_parallel: int = 1


@contextmanager
def talk(kind: Kind, folder: Path) -> Iterator[Talk]:
    """Hold the conversation. Every prompt of more than two blocks is prefill's."""
    arguments = ("--block-size", str(kind.block), "--tensor-parallel-size", str(kind.tensor_parallel), *kind.arguments)
    extra = {"disaggregate_above_tokens": 2 * kind.block, "estimate_age": 0, "silent_after": 15.0}

    def spec(role: Role | None, core: str) -> EngineSpec:
        return EngineSpec(
            role,
            core="0|1" if kind.tensor_parallel > 1 else core,
            arguments=arguments,
            environment=kind.environment,
            extra=extra if role else {},
            tensor_parallel=kind.tensor_parallel,
        )

    # One after the other: what spins for one of them would take its core from the others.
    with running(build_environment(), kind.model, folder / "plain") as engines:
        plain = engines.start(plain=spec(None, "0"))["plain"]
        expected = list(held(plain.url, MODEL_NAME, session="reference"))
    with running(build_environment(), kind.model, folder / "pair") as engines:
        engines.start(prefill=spec(Role.PREFILL, "0"), decode=spec(Role.DECODE, "1"))
        engines.wait_for_connections()
        prefill, decode = engines["prefill"], engines["decode"]
        yield Talk(expected, converse(prefill, decode, block=kind.block), prefill, decode)
