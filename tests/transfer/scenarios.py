# SPDX-License-Identifier: Apache-2.0
"""What the tests of real NIXL run in the engine environment: `python -m tests.transfer.scenarios NAME`.

A scenario returns facts, printed as JSON; the test that runs it says which are right.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tandem_connector.exchange.types import EngineId, StepId
from tandem_connector.vllm.jobs import Limits
from tandem_connector.vllm.nixl import NixlTransport
from tandem_connector.vllm.reports import JobEnded, PeerLost
from tandem_connector.vllm.transport import TransportError
from tandem_connector.vllm.writer import WriterSettings, agent_name
from tests.transfer.builders import a_write
from tests.transfer.rig import BLOCK_BYTES, BLOCKS, LAYERS, Engine, Remote, memory_of, remote

SOURCE = EngineId("source")


def a_source(settings: WriterSettings | None = None, blocks: int = BLOCKS, block_bytes: int = BLOCK_BYTES) -> Engine:
    source = Engine(SOURCE, LAYERS, blocks, block_bytes, settings or WriterSettings())
    source.fill(seed=1)
    return source


def connect(source: Engine, target: Remote) -> None:
    source.writer.add_peer(target.engine, target.memory, target.blocks)


def outcome(ended: JobEnded) -> list[object]:
    return [int(ended.job), ended.outcome.value, sorted(ended.written)]


def differences(source: Engine, target: Remote, sources: Sequence[int], destinations: Sequence[int]) -> int:
    """Bytes of the target's whole memory that are not what this write alone makes of zeros."""
    expected = np.zeros_like(source.kv)
    expected[:, list(destinations)] = source.kv[:, list(sources)]
    return int((target.ask("content") != expected).sum())


def written(sources: Sequence[int], destinations: Sequence[int], piece_bytes: int) -> dict[str, Any]:
    source = a_source(WriterSettings(limits=Limits(piece_bytes=piece_bytes)))
    with remote("target") as target:
        connect(source, target)
        target.ask("expect", 7, SOURCE, len(sources))
        source.writer.submit([a_write(1, to=target.engine, sources=sources, destinations=destinations)])
        (ended,) = source.ended(1)
        received = target.ask("wait_received", 7, len(sources))
        wrong = differences(source, target, sources, destinations)
        counts = target.ask("notification_counts")
    return {
        "ended": outcome(ended),
        "received": received,
        "wrong_bytes": wrong,
        "counts": counts,
        "pieces": source.writer.counts.pieces,
        "closed": source.writer.close(),
    }


def contiguous() -> dict[str, Any]:
    return written(range(10, 40), range(20, 50), piece_bytes=8 << 20)


def scattered() -> dict[str, Any]:
    order = np.random.default_rng(3)
    return written(order.permutation(BLOCKS)[:30].tolist(), order.permutation(BLOCKS)[:30].tolist(), 8 << 20)


def in_pieces() -> dict[str, Any]:
    return written(range(10, 40), range(20, 50), piece_bytes=7 * LAYERS * BLOCK_BYTES)


def after_the_step() -> dict[str, Any]:
    """The block gets its content after the job was given, as a forward pass would write it."""
    source = a_source()
    with remote("target") as target:
        connect(source, target)
        source.writer.submit(
            [a_write(1, to=target.engine, sources=[5], after=3), a_write(2, to=target.engine, sources=[6])]
        )
        first = source.ended(1)
        source.kv[:, 5] = 99
        source.writer.step_ran(StepId(3))
        both = source.ended(2)
        content = target.ask("content")
    return {
        "first": [outcome(each) for each in first],
        "order": [int(each.job) for each in both],
        "block_5": sorted(set(content[:, 5].ravel().tolist())),
    }


def past_the_deadline() -> dict[str, Any]:
    source = a_source()
    with remote("target") as target:
        connect(source, target)
        deadline = time.monotonic() + 0.2
        source.writer.submit([a_write(1, to=target.engine, deadline=deadline, after=3)])
        (ended,) = source.ended(1)
        early = time.monotonic() < deadline
        source.writer.step_ran(StepId(3))
        source.writer.submit([a_write(2, to=target.engine, sources=[9])])
        source.ended(2)
        wrong = differences(source, target, [9], [9])
    return {"ended": outcome(ended), "early": early, "wrong_bytes": wrong}


def killed_before_a_write() -> dict[str, Any]:
    source = a_source()
    with remote("target") as target, remote("other") as other:
        connect(source, target)
        connect(source, other)
        source.writer.submit([a_write(1, to=target.engine)])
        source.ended(1)
        target.process.kill()
        target.process.join()
        source.writer.submit([a_write(2, to=target.engine), a_write(3, to=other.engine, sources=[4])])
        ended = {int(each.job): each.outcome.value for each in source.ended(3)}
        wrong = differences(source, other, [4], [4])
    return {"ended": ended, "lost": lost(source), "wrong_bytes": wrong, "closed": source.writer.close()}


@contextmanager
def a_write_to_a_stopped_peer(blocks: int) -> Iterator[tuple[Engine, Remote]]:
    """One write has ended; another one, of so many blocks, is surely under way, since its target has been stopped."""
    source = a_source(blocks=2048, block_bytes=16384)
    with remote("target", (LAYERS, 2048, 16384)) as target:
        connect(source, target)
        source.writer.submit([a_write(1, to=target.engine)])
        source.ended(1)
        assert target.process.pid is not None
        os.kill(target.process.pid, signal.SIGSTOP)
        source.writer.submit([a_write(2, to=target.engine, sources=range(blocks))])
        while source.writer.counts.pieces < 2:
            time.sleep(0.001)
        yield source, target


def killed_under_a_write() -> dict[str, Any]:
    with a_write_to_a_stopped_peer(2048) as (source, target):
        running = not source.until(lambda seen: len(seen) > 1, patience=0.3)
        target.process.kill()
        target.process.join()
        (_, ended) = source.ended(2)
    return {"running": running, "ended": ended.outcome.value, "lost": lost(source), "closed": source.writer.close()}


def dropped_under_a_write() -> dict[str, Any]:
    """A silent peer is dropped while it is written to, comes back to life, and is added again."""
    with a_write_to_a_stopped_peer(1024) as (source, target):
        source.until(lambda seen: len(seen) > 1, patience=0.3)
        source.writer.drop_peer(target.engine)
        (_, ended) = source.ended(2)
        assert target.process.pid is not None
        os.kill(target.process.pid, signal.SIGCONT)
        time.sleep(0.5)
        target.ask("expect", 8, SOURCE, 1)
        connect(source, target)
        source.writer.submit([a_write(3, to=target.engine, want=8, sources=[2047])])
        again = source.ended(3)[2]
        received = target.ask("wait_received", 8, 1)
        landed = int(target.ask("content")[:, 1:1024].astype(bool).any(axis=2).sum())
    return {
        "ended": ended.outcome.value,
        "again": outcome(again),
        "received": received,
        "landed_after_the_drop": landed,
    }


def another_incarnation() -> dict[str, Any]:
    source = a_source()
    with remote("target-1") as old:
        connect(source, old)
        source.writer.submit([a_write(1, to=old.engine)])
        source.ended(1)
        old.process.kill()
        old.process.join()
    source.writer.drop_peer(old.engine)
    with remote("target-2") as new:
        connect(source, new)
        source.writer.submit([a_write(2, to=old.engine), a_write(3, to=new.engine, sources=[8], destinations=[1])])
        ended = {int(each.job): each.outcome.value for each in source.ended(3)}
        wrong = differences(source, new, [8], [1])
    return {"ended": ended, "wrong_bytes": wrong}


def garbage() -> dict[str, Any]:
    """A peer that speaks NIXL and nothing of ours; its agent has the name of one we expect."""
    _, geometry = memory_of(LAYERS, BLOCKS, BLOCK_BYTES)
    with remote("target") as target:
        target.ask("expect", 7, "rogue", 2)
        rogue = NixlTransport.open(agent_name(EngineId("rogue"), 0), geometry)
        rogue.add_peer(agent_name(target.engine, 0), target.memory, target.blocks)
        agent: Any = rogue._agent
        for notification in (b"garbage", b"", b"\xff" * 100_000, b"\x92\x07\x91\x63"):
            agent.send_notif(agent_name(target.engine, 0), notification)
        good = rogue.post(agent_name(target.engine, 0), [1], [1], b"\x92\x07\x92\x00\x01")
        target.tell("wait_received", 7, 2)
        while not target.pipe.poll(0.001):
            rogue.state(good)
        received = target.answer()
        malformed, _ = target.ask("notification_counts")
    return {"received": received, "malformed": malformed}


def refused_peers() -> dict[str, Any]:
    source = a_source()
    with remote("target") as target, remote("larger", (LAYERS, BLOCKS, 2 * BLOCK_BYTES)) as larger:
        source.writer.add_peer(larger.engine, larger.memory, BLOCKS)
        source.writer.add_peer(EngineId("x"), target.memory, BLOCKS)
        source.writer.add_peer(target.engine, target.memory, BLOCKS + 1)
        connect(source, target)
        source.writer.submit([a_write(1, to=target.engine)])
        source.ended(1)
        why = [report.why.partition(":")[0] for report in source.seen if isinstance(report, PeerLost)]
        wrong = differences(source, target, [0], [0])
    return {"why": why, "wrong_bytes": wrong}


def many_peers() -> dict[str, Any]:
    """The targets are agents of this process: 64 more processes would take minutes to start."""
    source = a_source()
    targets = [Engine(EngineId(f"target-{number}")) for number in range(64)]
    for target in targets:
        source.writer.add_peer(target.engine, target.writer.memory, BLOCKS)
    for target in targets:
        target.writer.expect(a_write().want, SOURCE, 2)
    source.writer.submit(
        a_write(number, to=target.engine, sources=[number, 1], destinations=[0, 63])
        for number, target in enumerate(targets)
    )
    ended = source.ended(64)
    received = [target.has_received(a_write().want, 2) for target in targets]
    right = [
        (target.kv[:, 0] == source.kv[:, number]).all() and not target.kv[:, 1:63].any()
        for number, target in enumerate(targets)
    ]
    closed = [engine.writer.close() for engine in (source, *targets)]
    return {
        "outcomes": sorted({each.outcome.value for each in ended}),
        "received": sum(received),
        "right": int(sum(right)),
        "closed": sum(closed),
    }


def shutdown_with_a_stopped_peer() -> dict[str, Any]:
    with a_write_to_a_stopped_peer(2048) as (source, target):
        source.until(lambda seen: len(seen) > 1, patience=0.3)
        closed = source.writer.close(patience=0.5)
        (_, ended) = source.ended(2)
        target.process.kill()
    return {"closed": closed, "ended": ended.outcome.value}


def a_backend_that_is_not_there() -> dict[str, Any]:
    _, geometry = memory_of(1, 1, 64)
    try:
        NixlTransport.open("agent", geometry, backends=["NOSUCH"])
    except TransportError as error:
        return {"error": str(error)}
    return {}


def lost(source: Engine) -> list[str]:
    return [report.peer for report in source.seen if isinstance(report, PeerLost)]


SCENARIOS: dict[str, Callable[[], dict[str, Any]]] = {
    scenario.__name__: scenario
    for scenario in (
        contiguous,
        scattered,
        in_pieces,
        after_the_step,
        past_the_deadline,
        killed_before_a_write,
        killed_under_a_write,
        dropped_under_a_write,
        another_incarnation,
        garbage,
        refused_peers,
        many_peers,
        shutdown_with_a_stopped_peer,
        a_backend_that_is_not_there,
    )
}

if __name__ == "__main__":
    print(json.dumps(SCENARIOS[sys.argv[1]]()), flush=True)
    os._exit(0)  # UCX may crash in its destructors after a peer died under a write
