# SPDX-License-Identifier: Apache-2.0
"""The connector with windows in it, for engines of tests: `kv_connector_module_path` may name this module.

Through a window (`e2e.exchange.window`) a test sees which blocks have a name and what is in them, and makes a rank stop in
the midst of its writes, or switches the quarantine off: the negative control of checks for late writes. Runs in the engine
environment.
"""

import json
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from vllm.config import VllmConfig
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole
from vllm.v1.kv_cache_interface import KVCacheConfig

from e2e.exchange.unsafe import KeepingNothing
from e2e.exchange.window_contract import Side, address_of
from tandem_connector.exchange.keeping import Keeping
from tandem_connector.exchange.own_want import OwnWant
from tandem_connector.exchange.types import Seconds
from tandem_connector.exchange.wanting import Wanting
from tandem_connector.vllm import connector
from tandem_connector.vllm.nixl import NixlTransport
from tandem_connector.vllm.transport import TransferState

_log = logging.getLogger(f"tandem_connector.{__name__}")


class TandemConnector(connector.TandemConnector):
    """See the base class."""

    def __init__(self, vllm_config: VllmConfig, role: KVConnectorRole, kv_cache_config: KVCacheConfig) -> None:
        Wanting._keeping_type = _Keeping  # noqa: SLF001
        super().__init__(vllm_config, role, kv_cache_config)

    def bind_kv_cache_manager(self, kv_cache_manager: Any) -> None:
        """See the base class."""
        super().bind_kv_cache_manager(kv_cache_manager)
        _open_window(self._me, Side.SCHEDULER, _Scheduler(kv_cache_manager.block_pool).answer)

    def register_kv_caches(self, kv_caches: dict[str, torch.Tensor]) -> None:
        """See the base class."""
        super().register_kv_caches(kv_caches)
        _open_window(self._me, Side.RANK, _Rank(list(kv_caches.values())).answer)


class _Keeping(KeepingNothing):
    """As it is in the product, until a test switches the quarantine off."""

    keeps: ClassVar[bool] = True

    def hold(self, want: OwnWant, now: Seconds) -> None:
        """See the base class."""
        if _Keeping.keeps:
            Keeping.hold(self, want, now)
        else:
            super().hold(want, now)


class _Scheduler:
    """What the block pool calls its blocks. To be asked when the engine is idle."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    def answer(self, question: Any) -> Any:
        match question:
            case {"quarantine": bool(keeps)}:
                _Keeping.keeps = keeps
                return keeps
            case _:
                # A name is the hash, and four bytes of the KV cache group.
                return {key[:-4].hex(): block for key, block in self._named()}

    def _named(self) -> Iterator[tuple[bytes, int]]:
        for key, value in self._pool.cached_block_hash_to_block._cache.items():  # noqa: SLF001
            for block in value.values() if isinstance(value, dict) else (value,):
                yield key, block.block_id


class _Rank:
    """A rank's memory, and its transfers.

    While they are held, nothing is read or written beyond what a call to post one writes: neither what peers have sent nor
    what this rank has posted gets further than the kernel's buffers.
    """

    def __init__(self, layers: Sequence[torch.Tensor]) -> None:
        self._layers = layers
        self._held = False
        self._posts_left: int | None = None
        self._post, self._state = NixlTransport.post, NixlTransport.state
        self._notifications = NixlTransport.notifications
        rank = self

        def post(transport: NixlTransport, *arguments: Any) -> Any:
            handle = rank._post(transport, *arguments)
            rank._posted()
            return handle

        def state(transport: NixlTransport, transfer: Any) -> TransferState:
            return TransferState.RUNNING if rank._held else rank._state(transport, transfer)

        def notifications(transport: NixlTransport) -> list[tuple[str, bytes]]:
            return [] if rank._held else rank._notifications(transport)

        NixlTransport.post, NixlTransport.state = post, state  # type: ignore[method-assign,assignment]
        NixlTransport.notifications = notifications  # type: ignore[method-assign,assignment]

    def answer(self, question: Any) -> Any:
        match question:
            case {"save": str(path), "blocks": blocks}:
                rows = [layer[blocks].reshape(len(blocks), -1).float().numpy() for layer in self._layers]
                np.save(path, np.stack(rows, axis=1))
                return len(rows)
            case {"hold": bool(held)}:
                self._held = held
                return held
            case {"stop_after": int(posts)}:
                self._held, self._posts_left = True, posts
                return posts
            case _:
                return None

    def _posted(self) -> None:
        if self._posts_left is None:
            return
        self._posts_left -= 1
        if self._posts_left == 0:
            _log.info("stops_itself")
            os.kill(os.getpid(), signal.SIGSTOP)
            self._held, self._posts_left = False, None


def _open_window(engine: str, side: Side, answer: Callable[[Any], Any]) -> None:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(address_of(engine, side))
    listener.listen()
    threading.Thread(target=_serve, args=(listener, answer), name="window", daemon=True).start()


def _serve(listener: socket.socket, answer: Callable[[Any], Any]) -> None:
    while True:
        connection, _ = listener.accept()
        with connection, connection.makefile("rw") as lines:
            lines.write(json.dumps(answer(json.loads(lines.readline()))) + "\n")
