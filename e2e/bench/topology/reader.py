# SPDX-License-Identifier: Apache-2.0
"""`python -m e2e.bench.topology.reader PEERS OUTPUT`, in a pod: the connector's reader of peer tables, in place of an engine.

It writes a line for each table that it has read: its generation, and the time of the monotonic clock, which is one for a machine.
"""

import sys
import threading
import time
from pathlib import Path

from tandem_connector.vllm.peer_table import TableChange
from tandem_connector.vllm.peers_file import PeersFile


def main(peers: Path, output: Path) -> None:
    """Read for ever."""
    with output.open("a", buffering=1) as file:

        def note(change: TableChange) -> None:
            at = time.monotonic()
            file.write(f"{change.table.generation} {at!r}\n")

        PeersFile(peers, note)
        threading.Event().wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
