# SPDX-License-Identifier: Apache-2.0
"""Upstream's NIXL agent has a thread that never sleeps, on the core on which the engine computes: half of it is lost.

That is no property of what is compared, and engines with cores to spare don't notice. With the lowest priority the thread
gets what the engine leaves, which is all while it waits.
"""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from e2e.exchange.engines import Engine

_LOWEST = 19
_LOOK = 1.0
"""Seconds."""


def let_spinning_threads_yield(engine: Engine) -> int:
    """Give the lowest priority to each thread of an idle engine that uses a quarter of a core or more; how many there were."""
    before = dict(_threads(engine))
    time.sleep(_LOOK)
    spinning = [thread for thread, used in _threads(engine) if used - before.get(thread, used) >= _LOOK / 4]
    for thread in spinning:
        os.setpriority(os.PRIO_PROCESS, thread, _LOWEST)
    return len(spinning)


def _threads(engine: Engine) -> Iterator[tuple[int, float]]:
    """Every thread's id, and the seconds of CPU that it has used."""
    for process in engine.processes():
        for thread in Path(f"/proc/{process}/task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
                fields = (thread / "stat").read_text().rpartition(")")[2].split()
                yield int(thread.name), (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
