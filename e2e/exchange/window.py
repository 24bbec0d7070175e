# SPDX-License-Identifier: Apache-2.0
"""A look into an engine whose connector is `e2e.exchange.inspected`: the names of its blocks, their bytes, its writes."""

import json
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from e2e.cluster.progress import wait_until
from e2e.exchange.engine import Engine
from e2e.exchange.processes import is_stopped
from e2e.exchange.window_contract import Side, address_of

MODULE: Final = "e2e.exchange.inspected"
"""For `EngineSpec.module`."""


def names_of(engine: Engine) -> Mapping[str, int]:
    """Which block has the KV of each block hash, in hexadecimal digits. The engine must be idle."""
    names: dict[str, int] = _ask(engine, Side.SCHEDULER, {})
    return names


def contents_of(engine: Engine, blocks: Sequence[int], folder: Path) -> npt.NDArray[np.float32]:
    """The KV of these blocks, one row for each; `folder` takes a file."""
    path = folder / f"{engine.id}.npy"
    _ask(engine, Side.RANK, {"save": str(path), "blocks": list(blocks)})
    rows: npt.NDArray[np.float32] = np.load(path).reshape(len(blocks), -1)
    path.unlink()
    return rows


def hold_transfers(engine: Engine, *, held: bool) -> None:
    """Let nothing that comes for the engine's rank be read, and nothing that it posted be written, or let it go on."""
    _ask(engine, Side.RANK, {"hold": held})


def stop_after(engine: Engine, posts: int) -> None:
    """Make the engine's rank stop itself with the writes in flight that it posts from now on, so many of them.

    When it is continued it does as ever.
    """
    _ask(engine, Side.RANK, {"stop_after": posts})


def keep_quarantine(engine: Engine, *, keeps: bool) -> None:
    """Whether the blocks of an ended want are kept until no write can reach them. Without that they are given back at once."""
    _ask(engine, Side.SCHEDULER, {"quarantine": keeps})


def wait_until_stopped(engine: Engine, within: float = 30.0) -> None:
    """Until the rank has stopped itself.

    Raises:
        GaveUpError: it hasn't in time.
    """
    wait_until(f"{engine.name} to stop in the midst of its writes", lambda: is_stopped(engine), within, every=0.01)


def _ask(engine: Engine, side: Side, question: Any) -> Any:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(60.0)
        connection.connect(address_of(engine.id, side))
        with connection.makefile("rw") as lines:
            lines.write(json.dumps(question) + "\n")
            lines.flush()
            return json.loads(lines.readline())
