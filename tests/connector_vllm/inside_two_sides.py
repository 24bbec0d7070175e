# SPDX-License-Identifier: Apache-2.0
"""Checks of two connectors that exchange over NIXL and sockets, without a model: `test_two_sides` starts it in the engine environment.

Each has a scheduler's side over vLLM's own block pool, and one rank. A step computes nothing, and carries orders and reports. Each
check is a function without arguments; `python inside_two_sides.py NAME...` runs them, and says of each whether it passed.
"""

import os
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import torch
from vllm.sampling_params import RequestOutputKind, SamplingParams
from vllm.utils.hashing import get_hash_fn_by_name
from vllm.v1.core.block_pool import BlockPool
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.request import Request

from tandem_connector.contract.messages import VERSION, Fingerprint, Hello, Purpose
from tandem_connector.contract.peers import Address, Drain, Parallelism, Peer, PeerTable
from tandem_connector.contract.types import BlockHash, EngineId, EngineState, Generation, Role
from tandem_connector.drain import stage, tell
from tandem_connector.exchange.settings import ExchangeSettings
from tandem_connector.exchange.types import EndReason, Load, RequestId, Seconds
from tandem_connector.vllm import peer_counts
from tandem_connector.vllm.engine_process import EngineProcess
from tandem_connector.vllm.parting import Parting
from tandem_connector.vllm.scheduler import SchedulerSide
from tandem_connector.vllm.settings import ConnectorSettings
from tandem_connector.vllm.surroundings import Surroundings
from tandem_connector.vllm.worker import WorkerSide

BLOCKS, TOKENS = 64, 16
WITHIN = 20.0


class Input:
    """The engine's, which is never asked for anything here."""

    ends = False

    def wake(self) -> None:
        """It runs."""


class Engine:
    def __init__(self, name: str, folder: Path, *, publishes: bool = False, role: Role = Role.DECODE) -> None:
        self.id, self.status = EngineId(f"{name}-{os.getpid()}"), str(folder / f"{name}.status")
        self._table = folder / f"{name}.peers"
        self._generation = 0
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.peer = Peer(
            engine=self.id,
            pod=name,
            role=role,
            state=EngineState.READY,
            address=Address(host="127.0.0.1", http_port=1, side_channel_port=port),
            parallelism=Parallelism(tensor=1),
            revision="",
        )
        settings = ConnectorSettings(listen_port=port, role=role, peers_file=self._table, status_file=Path(self.status))
        self.input = Input()
        surroundings = Surroundings(self.id, settings, None, cast("EngineProcess", self.input))
        self.side = SchedulerSide(
            self.id,
            settings,
            surroundings,
            block_size=TOKENS,
            hash_algorithm="sha256_cbor",
            end_within=60.0,
            longest=TOKENS,
        )
        self.vllms = BlockPool(
            num_gpu_blocks=BLOCKS, enable_caching=True, hash_block_size=TOKENS, enable_kv_cache_events=publishes
        )
        self.side.bind(SimpleNamespace(block_pool=self.vllms))
        self.pool, self.exchange = self.side._pool, self.side._exchange
        self.memory: Any = torch.zeros(BLOCKS, 2, TOKENS, 8)
        self._rank = WorkerSide(self.id, 0, BLOCKS, ("UCX",), prepare_thread=lambda _: None, record_event=lambda: None)
        rank = self._rank.register({"layer": self.memory})
        like = Fingerprint("m", "r", "f", "k", rank.layout, "g", TOKENS, 1, 1, "h", "0", "v", "c")
        hello = Hello(VERSION, like, BLOCKS, (rank.memory,), answer=True, publishes=publishes)
        self.side.start(hello, block_bytes=rank.block_bytes, idle_wait=0.01, fabric=rank.fabric, model="m")

    def told(
        self,
        *peers: Peer,
        drain: Drain | None = None,
        gone: tuple[str, ...] = (),
        heir: EngineId | None = None,
    ) -> None:
        self._generation += 1
        fresh = self._table.with_suffix(".new")
        fresh.write_text(PeerTable.of(Generation(self._generation), peers, drain, gone, heir).to_annotation())
        fresh.replace(self._table)

    def step(self) -> None:
        self.begin_step()
        self.end_step()

    def begin_step(self) -> None:
        nothing = SimpleNamespace(num_scheduled_tokens={}, total_num_scheduled_tokens=0, finished_req_ids=set())
        self._rank.before_step(self.side.steps.scheduled(nothing))

    def end_step(self) -> None:
        self._rank.after_forward()
        self.side.steps.ran([self._rank.report()])

    def caches(self, hashes: tuple[BlockHash, ...]) -> None:
        """Blocks with these names, each with a content of its own."""
        blocks = self.pool.take(len(hashes)) or ()
        for position, (block_hash, block) in enumerate(zip(hashes, blocks, strict=True)):
            self.memory[block] = float(hash(block_hash) % 1_000)
            self.pool.commit(block_hash, block, position, None)
        self.pool.unpin(blocks[::-1])

    def content(self, block_hash: BlockHash) -> Any:
        block = self.pool.lookup(block_hash)
        return None if block is None else self.memory[block].tolist()

    @property
    def tables_read(self) -> int:
        counts = self.side._surroundings.table_counts
        return 0 if counts is None else counts.accepted

    @property
    def speaks_with(self) -> int:
        """Peers that it has a connection to for messages."""
        network = self.side._surroundings.network
        return 0 if network is None else len(network.stages())

    @property
    def writes_to(self) -> int:
        """Peers that its rank has a connection to."""
        counts = self._rank._writer.counts
        return counts.peers_added - counts.peers_dropped

    def leaves_soon(self) -> None:
        """Peers that have parted."""
        self.side._conduct.peering._parting = Parting(leaves_after=0.5)

    def wants(self, hashes: tuple[BlockHash, ...], peer: EngineId) -> None:
        """A request of it waits for what the peer is to compute."""
        blocks = self.pool.take(len(hashes)) or ()
        load = Load(RequestId("r"), Purpose.FORWARD, hashes, blocks, Seconds(600.0), wait=True)
        self.exchange.want(peer, load, Seconds(time.monotonic()))
        self.pool.unpin(blocks)

    def news(self) -> "Told":
        return Told(self.side.news() or {"counters": {}, "gone": []})

    def close(self) -> None:
        self._rank.close()
        self.side.close()


class Told:
    """What is new in the metrics."""

    def __init__(self, news: dict[str, Any]) -> None:
        self._counters, self.gone = news["counters"], news["gone"]

    def counters(self, name: str) -> Any:
        return self._counters.get(name)


def a_request(tokens: int, sampling: SamplingParams | None = None) -> Request:
    sha256 = get_hash_fn_by_name("sha256_cbor")
    init_none_hash(sha256)
    hasher = get_request_block_hasher(TOKENS, sha256)
    return Request("r", list(range(tokens)), sampling or SamplingParams(), None, block_hasher=hasher, cache_salt="salt")


def chain(name: str, length: int) -> tuple[BlockHash, ...]:
    return tuple(BlockHash(f"{name}-{position:030}".encode()) for position in range(length))


def until(what: str, condition: Callable[[], bool], *engines: Engine) -> None:
    end = time.monotonic() + WITHIN
    while not condition():
        assert time.monotonic() < end, f"it never came so far: {what}"
        for engine in engines:
            engine.step()


def acquainted(*, publishes: bool = False) -> tuple[Engine, Engine]:
    """Two of one role that are in each other's tables, and of which the second publishes KV events or doesn't."""
    folder = Path(tempfile.mkdtemp())
    one, other = Engine("one", folder), Engine("other", folder, publishes=publishes)
    one.told(other.peer)
    other.told(one.peer)
    until("both join", lambda: one.exchange.reaches(other.id) and other.exchange.reaches(one.id), one, other)
    return one, other


def what_a_draining_engine_holds_is_at_its_successor_before_it_says_that_it_is_drained() -> None:
    one, other = acquainted()
    held = (*chain("long", 20), *chain("short", 5))
    one.caches(held[:20])
    one.caches(held[20:])
    other.caches(held[:4])
    one.told(other.peer, drain=Drain(successor=other.id))
    until("it is drained", lambda: stage(one.status) == "drained", one, other)
    assert [other.content(each) for each in held[4:]] == [one.content(each) for each in held[4:]]
    assert other.exchange.tally.blocks_received[Purpose.MOVE] == len(held) - 4
    for engine in (one, other):
        assert engine.pool.free_blocks == BLOCKS - 1
        engine.close()


def an_engine_that_its_hook_tells_to_end_hands_over_to_its_heir_though_its_table_stays_as_it_is() -> None:
    one, other = acquainted()
    held = chain("held", 20)
    one.caches(held)
    one.told(other.peer, heir=other.id)
    until("it has read who is its heir", lambda: one.tables_read == 2, one)
    assert stage(one.status) == "serving"
    tell(one.status)
    until("it is drained", lambda: stage(one.status) == "drained", one, other)
    assert [other.content(each) for each in held] == [one.content(each) for each in held]
    for engine in (one, other):
        engine.close()


def what_moves_is_published_by_the_successor_as_if_it_had_been_computed_there() -> None:
    one, other = acquainted(publishes=True)
    request = a_request(330)
    names = tuple(BlockHash(each) for each in request.block_hashes)
    computing = BlockPool(
        num_gpu_blocks=BLOCKS, enable_caching=True, hash_block_size=TOKENS, enable_kv_cache_events=True
    )
    blocks = computing.get_new_blocks(len(names))
    for index in range(len(names)):
        computing.cache_full_blocks(request, blocks, index, index + 1, TOKENS, 0)
    one.side.on_new_request(request)
    one.side.request_finished(request)
    one.caches(names)
    one.told(other.peer, drain=Drain(successor=other.id))
    until("it is drained", lambda: stage(one.status) == "drained", one, other)
    assert other.exchange.tally.blocks_received[Purpose.MOVE] == len(names) == 20
    assert other.vllms.take_events() == computing.take_events()
    for engine in (one, other):
        engine.close()


def an_engine_that_ends_is_done_when_both_sides_have_all_their_blocks_back() -> None:
    one, other = acquainted()
    one.wants(chain("of other", 3), other.id)
    other.wants(chain("of one", 3), one.id)
    until(
        "both are served",
        lambda: one.exchange.gauges().wants_served == 1 == other.exchange.gauges().wants_served,
        one,
        other,
    )
    one.input.ends = True
    until("it is done", lambda: not one.side.steps.are_needed(), one, other)
    assert one.pool.free_blocks == BLOCKS - 1
    # While vLLM takes its workers down it steps no more.
    other.wants(chain("too late", 3), one.id)
    until("the other has all back", lambda: other.pool.free_blocks == BLOCKS - 1, other)
    assert other.exchange.tally.wants_ended[Purpose.FORWARD, EndReason.MISSING] == 2
    one.close()
    other.close()


def what_was_begun_with_a_peer_that_parts_is_ended_and_both_begin_anew_when_it_returns() -> None:
    one, other = acquainted()
    begun, next_, producer = chain("begun", 3), chain("next", 3), RequestId("producer")
    other.exchange.request_produces(producer, begun)
    one.wants(begun, other.id)
    until("it is served", lambda: other.exchange.gauges().wants_served == 1, one, other)
    for engine in (one, other):
        engine.told()
    until("they part", lambda: not (one.exchange.reaches(other.id) or other.exchange.reaches(one.id)), one, other)
    other.caches(begun)
    other.exchange.request_ended(producer, Seconds(time.monotonic()), offer=False)
    until("it has what it waited for", lambda: one.exchange.gauges().wants_open == 0, one, other)
    assert one.exchange.tally.wants_ended[Purpose.FORWARD, EndReason.COMPLETE] == 1
    until("the ranks part", lambda: one.writes_to == 0 == other.writes_to, one, other)
    one.told(other.peer)
    other.told(one.peer)
    until("they meet", lambda: one.exchange.reaches(other.id) and other.exchange.reaches(one.id), one, other)
    other.caches(next_)
    one.wants(next_, other.id)
    until("it has that too", lambda: one.exchange.gauges().wants_open == 0, one, other)
    assert one.exchange.tally.blocks_received[Purpose.FORWARD] == len(begun) + len(next_)
    for engine in (one, other):
        assert engine.pool.free_blocks == BLOCKS - 1
        engine.close()


def a_peer_that_has_parted_is_left_when_nothing_is_under_way_and_joins_anew_when_it_returns() -> None:
    one, other = acquainted()
    for engine in (one, other):
        engine.leaves_soon()
    for engine in (one, other):
        engine.told()
    until("they leave each other", lambda: one.speaks_with == 0 == other.speaks_with, one, other)
    one.told(other.peer)
    other.told(one.peer)
    until("they meet", lambda: one.exchange.reaches(other.id) and other.exchange.reaches(one.id), one, other)
    held = chain("held", 3)
    other.caches(held)
    one.wants(held, other.id)
    until("it has what it wanted", lambda: one.exchange.gauges().wants_open == 0, one, other)
    assert one.exchange.tally.blocks_received[Purpose.FORWARD] == len(held)
    for engine in (one, other):
        assert engine.pool.free_blocks == BLOCKS - 1
        engine.close()


def what_goes_between_two_engines_is_counted_by_pod_for_as_long_as_they_are_peers_and_a_while_more() -> None:
    one, other = acquainted()
    told = one.news()
    assert told.counters("peer_bytes_written") == {"other|move": 0}, "it is there before anything has gone"
    held = chain("held", 3)
    other.caches(held)
    one.wants(held, other.id)
    until("it has what it wanted", lambda: one.exchange.gauges().wants_open == 0, one, other)
    moved = one.news().counters("peer_bytes_received")
    assert moved == {"other|forward": one.memory[0].nbytes * len(held)}
    with patch.object(peer_counts, "KEPT", 1.0):
        one.told()
        until("the table is followed", lambda: one.side._conduct.next_due() is not None, one, other)
        assert one.news().gone == []
        until("its series go", lambda: one.news().gone == ["other"], one, other)
    one.close()
    other.close()


def a_peer_that_has_parted_is_not_left_while_it_may_still_write() -> None:
    one, other = acquainted()
    for engine in (one, other):
        engine.leaves_soon()
    late = chain("late", 3)
    other.exchange.request_produces(RequestId("producer"), late)
    one.wants(late, other.id)
    until("it is served", lambda: other.exchange.gauges().wants_served == 1, one, other)
    one.told()
    until("they part", lambda: not one.exchange.reaches(other.id), one, other)
    for _ in range(200):
        one.step()
        other.step()
    assert (one.speaks_with, one.exchange.gauges().wants_open) == (1, 1)
    one.close()
    other.close()


def a_request_that_came_while_a_long_step_ran_is_known_before_anybody_hears_that_nobody_computes() -> None:
    one, other = acquainted()
    request = a_request(330)
    one.wants(tuple(BlockHash(each) for each in request.block_hashes), other.id)
    until("it is served", lambda: other.exchange.gauges().wants_served == 1, one, other)
    other.begin_step()
    time.sleep(ExchangeSettings().nobody_grace + 0.2)
    other.end_step()
    # vLLM reads its input queue between two steps.
    other.side.on_new_request(request)
    for engine in (other, one, other, one):
        engine.step()
    assert (other.exchange.gauges().wants_served, one.exchange.gauges().wants_open) == (1, 1)
    for engine in (one, other):
        engine.close()


def blocks_are_kept_from_a_peer_that_parted_without_a_word_until_its_pod_is_said_to_be_gone() -> None:
    one, other = acquainted()
    one.wants(chain("never", 3), other.id)
    until("it is served", lambda: other.exchange.gauges().wants_served == 1, one, other)
    other.close()
    one.told()
    until("it is silent", lambda: one.exchange.gauges().blocks_quarantined == 3, one)
    one.told(gone=("other",))
    until("all is back", lambda: one.pool.free_blocks == BLOCKS - 1, one)
    one.close()


class LookedAt(list[Any]):
    """Counts how often somebody takes something of it."""

    looks = 0

    def __getitem__(self, index: Any) -> Any:
        self.looks += 1
        return super().__getitem__(index)

    def __iter__(self) -> Any:
        self.looks += 1
        return super().__iter__()


def the_names_of_a_request_that_ends_are_looked_at_only_by_who_needs_them() -> None:
    folder = Path(tempfile.mkdtemp())
    looks = []
    for role in (Role.PREFILL, Role.DECODE):
        engine = Engine(role.value, folder, role=role)
        request = a_request(330)
        names = request.block_hashes = LookedAt(request.block_hashes)
        engine.side.on_new_request(request)
        request.num_computed_tokens, names.looks = 330, 0
        engine.side.request_finished(request)
        looks.append(names.looks)
        engine.close()
    # Decode remembers where the conversation is.
    assert looks == [0, 1]


def an_answer_that_may_end_by_its_text_has_its_account_with_each_output() -> None:
    folder = Path(tempfile.mkdtemp())
    decode, prefill = (Engine(role.value, folder, role=role) for role in (Role.DECODE, Role.PREFILL))
    for stop, kind, engine, tells in (
        (["."], RequestOutputKind.FINAL_ONLY, decode, True),
        (["."], RequestOutputKind.DELTA, decode, False),
        (None, RequestOutputKind.FINAL_ONLY, decode, False),
        (["."], RequestOutputKind.FINAL_ONLY, prefill, False),
    ):
        request = a_request(330, SamplingParams(stop=stop, output_kind=kind))
        engine.side.on_new_request(request)
        request.append_output_token_ids([5, 6, 7])
        told = engine.side.params_so_far(request.request_id)
        assert (told is not None) is tells
        if told is not None:
            assert told == engine.side.request_finished(request)
            assert cast("dict[str, Any]", told["tandem"])["output"] == 3
            assert engine.side.params_so_far(request.request_id) is None
        else:
            engine.side.request_finished(request)
    for engine in (decode, prefill):
        engine.close()


if __name__ == "__main__":
    for check in sys.argv[1:]:
        try:
            globals()[check]()
        except Exception:
            traceback.print_exc()
            print(f"failed {check}", flush=True)
        else:
            print(f"passed {check}", flush=True)
    # NIXL's own threads may outlive what they work for.
    os._exit(0)
