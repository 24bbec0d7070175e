# SPDX-License-Identifier: Apache-2.0
"""Carries out faults on the engines that can have them now."""

import asyncio
import contextlib
import json
import random
import signal
import socket
import urllib.error
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from typing import Any, Final

import zmq

from e2e.exchange import front
from e2e.exchange.engine import Engine
from e2e.exchange.prompts import Prompt, ask
from e2e.soak.faults import HEAVY, Fault, Kind
from e2e.soak.fleet import Fleet, Standing, StartError
from e2e.soak.tally import Tally
from tandem_connector.contract.messages import MAX_BYTES, Cancel, Envelope, Message, Ping, Purpose, Query, Want, encode
from tandem_connector.contract.peers import PeerTable
from tandem_connector.contract.types import BlockHash, EngineId, Generation, QueryId, WantId, pod_of

_BEHAVIOURS: Final = (
    front.hangs,
    front.hangs_after_the_prefill,
    front.breaks_off,
    front.breaks_off_after_the_prefill,
    front.resets,
    front.speaks_another_protocol,
    front.drips_headers,
    front.drips_a_body,
    front.answers({"error": "no"}, "500 Internal Server Error"),
    front.answers({"error": "busy"}, "503 Service Unavailable"),
    front.answers({"choices": [{"text": 5}]}),
    front.answers(b"\x00\xff" * 100),
)
_MESSAGES: Final[tuple[Message, ...]] = (
    Want(WantId(1), Purpose.FORWARD, (BlockHash(b"h" * 32),), (1,), 30.0, wait=True),
    Ping((WantId(1),), (), WantId(1 << 40), 0),
    Cancel(WantId(1)),
    Query(QueryId(1), tuple(BlockHash(number.to_bytes(32, "big")) for number in range(5_000))),
)


class Strikes:
    """Faults under way."""

    def __init__(self, fleet: Fleet, tally: Tally, spared: Collection[str], hung_after: float) -> None:
        """None yet.

        Args:
            fleet: the engines.
            tally: what is done is counted in it.
            spared: names of engines that are never ended.
            hung_after: seconds in which each request of a burst must be answered.
        """
        self._hung_after = hung_after
        self._fleet = fleet
        self._tally = tally
        self._spared = spared
        self._does: Mapping[Kind, Callable[[str, Fault], Awaitable[None]]] = {
            Kind.KILL: self._kill,
            Kind.STOP: self._stop,
            Kind.RETIRE: self._retire,
            Kind.NAP: self._freeze,
            Kind.FREEZE: self._freeze,
            Kind.RESET: self._reset,
            Kind.DRAIN: self._drain,
            Kind.TABLE: self._table,
            Kind.GARBAGE: self._garbage,
            Kind.HTTP: self._http,
            Kind.BURST: self._burst,
        }

    async def strike(self, fault: Fault, *, heavy: bool) -> None:
        """Carry it out, and return when it is over; nothing where it can't be done now, or is `HEAVY` and mustn't be."""
        if fault.kind in HEAVY and not (heavy and not self._fleet.standing(Standing.DOWN)):
            return
        if fault.kind in {Kind.NAP, Kind.FREEZE} and self._fleet.standing(Standing.FROZEN):
            return
        names = [
            name
            for name in self._fleet.standing(Standing.UP, Standing.FROZEN, role=fault.role)
            if self._can(name, fault)
        ]
        if names:
            name = names[fault.dice % len(names)]
            self._tally.fault(fault.name, f"{name} {fault.seconds:.1f} s")
            await self._does[fault.kind](name, fault)

    def _can(self, name: str, fault: Fault) -> bool:
        match fault.kind:
            case Kind.KILL:
                return name not in self._spared
            case Kind.STOP | Kind.RETIRE:
                return name not in self._spared and self._is_up(name)
            case Kind.TABLE:
                return self._fleet.knows_its_table(name)
            case Kind.GARBAGE:
                return True
            case _:
                return self._is_up(name)

    def _is_up(self, name: str) -> bool:
        return self._fleet.standings[name] is Standing.UP

    async def revive(self, name: str) -> None:
        """Note that this engine ended by itself, and start another one."""
        self._tally.failed("crashed", f"{name} ended by itself: see {self._fleet[name].log}")
        with self._noting():
            await self._fleet.replace(name, signal.SIGKILL, 0.0)

    @contextlib.contextmanager
    def _noting(self) -> Iterator[None]:
        """For what starts an engine: one that doesn't start is a failure, and the others go on."""
        try:
            yield
        except StartError as error:
            self._tally.failed("crashed", str(error))

    # -- ends -------------------------------------------------------------------------------------------------------

    async def _kill(self, name: str, fault: Fault) -> None:
        with self._noting():
            await self._fleet.replace(name, signal.SIGKILL, fault.seconds, same_place=fault.dice % 2 == 0)

    async def _stop(self, name: str, fault: Fault) -> None:
        with self._noting():
            await self._fleet.replace(name, signal.SIGTERM, fault.seconds, same_place=fault.dice % 2 == 0)

    async def _retire(self, name: str, fault: Fault) -> None:
        with self._noting():
            await self._fleet.retire(name, fault.seconds)

    # -- what passes ------------------------------------------------------------------------------------------------

    async def _freeze(self, name: str, fault: Fault) -> None:
        async with self._fleet.frozen(name):
            await asyncio.sleep(fault.seconds)

    async def _drain(self, name: str, fault: Fault) -> None:
        async with self._fleet.draining(name):
            await asyncio.sleep(fault.seconds)

    async def _reset(self, name: str, fault: Fault) -> None:
        # With requests that wait for peers vLLM refuses to preempt all others for it.
        path = "/reset_prefix_cache" + ("?reset_running_requests=true" if fault.dice % 3 == 0 else "")
        await _tried(self._fleet[name].post, path)

    async def _http(self, name: str, fault: Fault) -> None:
        choice = fault.dice % (len(_BEHAVIOURS) + 1)
        broken = self._fleet.fronts[name]
        with broken.doing(_BEHAVIOURS[choice]) if choice < len(_BEHAVIOURS) else broken.refusing():
            await asyncio.sleep(fault.seconds)

    async def _burst(self, name: str, fault: Fault) -> None:
        chosen = random.Random(fault.dice)
        engine = self._fleet[name]

        async def one(number: int) -> None:
            ids = Prompt(fault.dice + number, chosen.randint(600, 2_500)).ids(self._fleet.model)
            hangs_up = number % 2 == 1
            patience = fault.seconds if hangs_up else self._hung_after
            answered = await _tried(lambda: ask(engine, ids, output=40, timeout=patience))
            if not (answered or hangs_up or engine.id in self._fleet.ended):
                self._tally.failed(
                    "hung", f"one of a burst at {engine.id}, {len(ids)} tokens, not answered in {patience:.0f} s"
                )

        await asyncio.gather(*(one(number) for number in range(6)))

    # -- bad content ------------------------------------------------------------------------------------------------

    async def _table(self, name: str, fault: Fault) -> None:
        engine, content = self._fleet[name], random.Random(fault.dice).choice(bad_tables(self._fleet.table(name)))
        if content is None:
            engine.peers_file.unlink(missing_ok=True)
        else:
            engine.put_table(content)
        await asyncio.sleep(fault.seconds)
        self._fleet.tell()

    async def _garbage(self, name: str, fault: Fault) -> None:
        await _tried(_send_garbage, self._fleet[name], random.Random(fault.dice))


async def _tried(what: Callable[..., Any], *arguments: Any) -> bool:
    """Do what may fail, and say whether it went well."""
    try:
        await asyncio.to_thread(what, *arguments)
    except (urllib.error.URLError, OSError, ValueError):
        return False
    return True


def bad_tables(table: PeerTable) -> tuple[str | None, ...]:
    """Contents that an engine with this table must not follow; None: no file."""
    good = table.to_annotation()
    return (
        None,
        "",
        good[: len(good) // 2],
        json.dumps({"version": 99, "peers": "many"}),
        PeerTable.of(Generation(0), ()).to_annotation(),
        PeerTable.of(table.generation, table.peers[1:]).to_annotation(),
        table.model_copy(update={"generation": table.generation + 1, "digest": "0" * 16}).to_annotation(),
    )


def _send_garbage(engine: Engine, dice: random.Random) -> None:
    address = engine.as_peer().address
    if dice.random() < 0.3:
        with socket.create_connection((address.host, address.side_channel_port), timeout=5.0) as plain:
            plain.sendall(dice.randbytes(dice.choice((1, 64, 100_000))))
        return
    stranger, former = EngineId(f"stranger-{dice.getrandbits(16):x}"), EngineId(f"{pod_of(engine.id)}-0")
    message = dice.choice(_MESSAGES)
    frames = dice.choice(
        (
            [dice.randbytes(200)],
            [dice.randbytes(50), dice.randbytes(50)],
            [b""],
            [bytes(MAX_BYTES + 1)],
            [encode(Envelope(stranger, engine.id, message))],
            [encode(Envelope(stranger, former, message))],
            [encode(Envelope(engine.id, engine.id, message))],
        )
    )
    with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
        dealer.linger = 1_000
        dealer.connect(f"tcp://{address.host}:{address.side_channel_port}")
        for _ in range(dice.choice((1, 20))):
            dealer.send_multipart(frames)
