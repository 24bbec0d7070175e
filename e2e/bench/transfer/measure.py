# SPDX-License-Identifier: Apache-2.0
"""The measurements, in the engine environment: pairs of a raw and an own transfer, one right after the other.

A share is the median over pairs, so that what else the machine does touches both alike. CPU is that of both sides,
all of it: waiting included.
"""

import itertools
import os
import statistics
import sys
import time
from dataclasses import dataclass

import numpy as np

from e2e.bench.transfer.sides import BLOCK_BYTES, BLOCKS, LAYERS, Ours, Raw, Target, targets, timed
from tandem_connector.exchange.types import BlockId, EngineId, Index, JobId, Seconds, WantId, Write

PAIRS = 15
BLOCKS_OF_A_CASE = (1, 16, 256, 1024)
BULK = 256
"""Blocks from which what is measured is bandwidth; below, it is how fast threads wake each other."""
MANY_PEERS, MANY_PEERS_BLOCKS = 64, 16
"""As many processes on two cores take them from each other all the time, on both sides of a pair."""
SOURCE = EngineId("source")
_jobs = itertools.count(1)
_wants = itertools.count(1)


@dataclass(frozen=True)
class Sample:
    """One transfer to all peers of a case."""

    seconds: float
    cpu_seconds: float


def figure(name: str, value: float, unit: str) -> None:
    """Print a result."""
    print(f"figure {name} {value:.4g} {unit}", flush=True)


def own_sample(source: Ours, peers: list[Target], sources: list[int], destinations: list[int]) -> Sample:
    """Write with the writer; until all jobs are reported written."""
    wants = [WantId(next(_wants)) for _ in peers]
    blocks = len(sources)
    for peer, want in zip(peers, wants, strict=True):
        peer.start("expect", want, SOURCE, blocks)
    before = sum(peer.result() for peer in peers) + source.writer.counts.cpu_seconds
    for peer, want in zip(peers, wants, strict=True):
        peer.start("receive_ours", want, blocks)
    writes = [
        Write(
            job=JobId(next(_jobs)),
            peer=peer.engine,
            want=want,
            indices=tuple(Index(number) for number in range(blocks)),
            sources=tuple(BlockId(block) for block in sources),
            destinations=tuple(BlockId(block) for block in destinations),
            deadline=Seconds(time.monotonic() + 60),
            after=None,
        )
        for peer, want in zip(peers, wants, strict=True)
    ]
    began = time.perf_counter()
    source.writer.submit(writes)
    seconds = source.wait(jobs=len(peers)) - began
    after = sum(peer.result() for peer in peers) + source.writer.counts.cpu_seconds
    return Sample(seconds, after - before)


def raw_sample(source: Raw, peers: list[Target], sources: list[int], destinations: list[int]) -> Sample:
    """Write with NIXL; until all transfers are done."""
    for peer in peers:
        peer.start("receive_raw")
    names = [f"raw-{peer.engine}" for peer in peers]
    seconds, cpu = timed(lambda: source.write(names, sources, destinations))
    return Sample(seconds, cpu + sum(peer.result() for peer in peers))


def compare(ours: Ours, raw: Raw, peers: list[Target], blocks: int, *, scattered: bool) -> float:
    """Figures of one case; returns the share of raw bandwidth."""
    order = np.random.default_rng(blocks)
    sources, destinations = (
        [int(block) for block in (order.permutation(count)[:blocks] if scattered else range(blocks))]
        for count in (BLOCKS, peers[0].blocks)
    )
    raws: list[Sample] = []
    owns: list[Sample] = []
    for number in range(PAIRS + 1):
        for own in (False, True) if number % 2 else (True, False):
            if own:
                owns.append(own_sample(ours, peers, sources, destinations))
            else:
                raws.append(raw_sample(raw, peers, sources, destinations))
    del raws[0], owns[0]  # these connected
    case = f"{'scattered' if scattered else 'contiguous'}_{blocks}_blocks_{len(peers)}_peers"
    moved = blocks * len(peers)
    size = moved * LAYERS * BLOCK_BYTES
    share = statistics.median(one.seconds / own.seconds for one, own in zip(raws, owns, strict=True))
    figure(f"share_of_raw_{case}", share, "ratio")
    for name, samples in (("raw", raws), ("own", owns)):
        figure(f"{name}_bytes_{case}", size / statistics.median(each.seconds for each in samples), "B/s")
        cpu = statistics.median(each.cpu_seconds for each in samples)
        figure(f"{name}_cpu_per_block_{case}", cpu / moved * 1e6, "us")
    return share


def coalescing(raw: Raw, peer: Target, blocks: int) -> None:
    """What it brings to list contiguous blocks in their order: NIXL joins neighbours of the list."""
    in_order = list(range(blocks))
    shuffled = np.random.default_rng(1).permutation(blocks).tolist()
    pairs = [[raw_sample(raw, [peer], each, each).seconds for each in (shuffled, in_order)] for _ in range(PAIRS)]
    figure(f"gain_of_order_{blocks}_blocks", statistics.median(one / two for one, two in pairs), "ratio")


def at_rest(ours: Ours, peer: Target, seconds: float) -> None:
    """CPU of writers that are connected: idle, and waiting for a write that doesn't come."""
    began = ours.writer.counts.cpu_seconds
    time.sleep(seconds)
    figure("idle_cpu", 100 * (ours.writer.counts.cpu_seconds - began) / seconds, "% of a core")
    want = WantId(next(_wants))
    ours.writer.expect(want, peer.engine, 1)
    time.sleep(0.1)
    began = ours.writer.counts.cpu_seconds
    time.sleep(seconds)
    figure("waiting_cpu", 100 * (ours.writer.counts.cpu_seconds - began) / seconds, "% of a core")
    ours.writer.forget(want)


def connect(ours: Ours, raw: Raw, peers: list[Target]) -> None:
    """Make the memory of all peers writable, both ways of writing."""
    for peer in peers:
        ours.writer.add_peer(peer.engine, peer.memory, peer.blocks)
        raw.connect(f"raw-{peer.engine}", peer.raw_metadata, peer.raw_bases, peer.blocks)


def few_peers(ours: Ours, raw: Raw) -> None:
    """All sizes, to one peer and to three at a time, and what connected writers cost at rest."""
    bulk: list[float] = []
    with targets(3, BLOCKS) as peers:
        connect(ours, raw, peers)
        for count in (1, len(peers)):
            for scattered in (False, True):
                for blocks in BLOCKS_OF_A_CASE:
                    print(f"measuring {blocks} blocks to {count} peers", file=sys.stderr, flush=True)
                    share = compare(ours, raw, peers[:count], blocks, scattered=scattered)
                    if blocks >= BULK:
                        bulk.append(share)
        figure("share_of_raw_bulk", statistics.median(bulk), "ratio")
        coalescing(raw, peers[0], 256)
        at_rest(ours, peers[0], seconds=4.0)


def many_peers(ours: Ours, raw: Raw) -> None:
    """Small transfers to many peers at a time."""
    print(f"starting {MANY_PEERS} peers", file=sys.stderr, flush=True)
    with targets(MANY_PEERS, MANY_PEERS_BLOCKS) as peers:
        connect(ours, raw, peers)
        for scattered in (False, True):
            for blocks in (1, MANY_PEERS_BLOCKS):
                print(f"measuring {blocks} blocks to {MANY_PEERS} peers", file=sys.stderr, flush=True)
                compare(ours, raw, peers, blocks, scattered=scattered)


def main() -> None:
    """Run all cases."""
    ours, raw = Ours(SOURCE), Raw("raw-source")
    few_peers(ours, raw)
    many_peers(ours, raw)
    ours.writer.close()
    sys.stdout.flush()
    os._exit(0)  # UCX's destructors may crash once a peer has gone


if __name__ == "__main__":
    main()
