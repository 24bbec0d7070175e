# SPDX-License-Identifier: Apache-2.0
"""The scripted conversation over prefill and decode, and with a plain engine of the same kind; and what holds of it for every kind."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from e2e.conversation import Turn, held
from e2e.engine.environment import build_environment
from e2e.engine.model import MODEL_NAME
from e2e.exchange.afterwards import nothing_is_held
from e2e.exchange.engines import Engine, EngineSpec, running
from e2e.suite.exchange.conversing import Held, converse, excess, moved
from tandem_connector.contract.types import Role


@dataclass(frozen=True)
class Talk:
    """What was said over both, and by a plain engine."""

    expected: list[Turn]
    held: Held
    prefill: Engine
    decode: Engine
    block: int
    """Tokens per KV block."""


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
        yield Talk(expected, converse(prefill, decode, block=kind.block), prefill, decode, kind.block)


class Exchanged:
    """What holds of every kind. The module of a kind has a fixture `talked`, and a class of tests that begins with this one."""

    def test_each_answer_is_a_plain_engines(self, talked: Talk) -> None:
        assert [turn.text for turn in talked.held.turns] == [turn.text for turn in talked.expected]

    def test_each_engine_computes_what_it_must_and_gets_the_rest(self, talked: Talk) -> None:
        assert excess(talked.held, talked.block) == []

    def test_as_many_bytes_were_written_as_received_in_both_directions(self, talked: Talk) -> None:
        for writer, receiver, purpose in (
            (talked.prefill, talked.decode, "forward"),
            (talked.decode, talked.prefill, "reverse_push"),
        ):
            written, received = moved(writer, receiver, purpose)
            assert written == received > 0

    def test_afterwards_no_block_is_held(self, talked: Talk) -> None:
        nothing_is_held(talked.prefill, talked.decode)
