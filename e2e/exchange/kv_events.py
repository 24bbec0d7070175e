# SPDX-License-Identifier: Apache-2.0
"""What an indexer of KV events hears of engines: vLLM's publisher on loopback, and a process that listens with vLLM's types."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.engine.environment import EngineEnvironment

_SCRIPT = Path(__file__).with_name("event_log.py")


def publishing_to(port: int) -> tuple[str, str]:
    """The flags that make an engine publish its KV events to a listener on this port."""
    events = {"enable_kv_cache_events": True, "publisher": "zmq", "endpoint": f"tcp://127.0.0.1:{port}"}
    return "--kv-events-config", json.dumps(events)


@dataclass(frozen=True)
class Heard:
    """All events until now."""

    path: Path

    def of(self, port: int) -> list[dict[str, Any]]:
        """Those that came to the port, in order: `event` is the class, the rest vLLM's own fields."""
        if not self.path.exists():
            return []
        whole = self.path.read_text().rpartition("\n")[0]
        return [event for event in map(json.loads, whole.splitlines()) if event.pop("port") == port]


@contextmanager
def listening(environment: EngineEnvironment, path: Path, *ports: int) -> Iterator[Heard]:
    """A listener on these ports, which writes to the file."""
    # -P: a script's own folder would come before the standard library, and this one has a `numbers`.
    command = [str(environment.python), "-P", str(_SCRIPT), str(path), *map(str, ports)]
    with path.with_suffix(".log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        yield Heard(path)
    finally:
        process.terminate()
        process.wait()
