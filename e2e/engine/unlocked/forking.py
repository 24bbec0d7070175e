# SPDX-License-Identifier: Apache-2.0
"""What a fork must not have of the server that it was forked from."""

import os
import socket
from pathlib import Path


def stop_listening() -> None:
    """Leave the server's TCP ports to the server, in a process that was forked from it.

    As long as one has them connections are taken on, by nobody when the server has ended; and vLLM's server, which looks at its end
    who else has its port, fails with a traceback and status 1 if that one ends in the same moment (`launcher.py` of vLLM 0.32.0).
    The numbers stay taken: Python objects that were forked too close them some time.
    """
    with Path(os.devnull).open("rb") as null:
        for number in [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]:
            if _listens(number):
                os.dup2(null.fileno(), number)


def _listens(number: int) -> bool:
    try:
        with socket.socket(fileno=os.dup(number)) as found:
            is_tcp = found.family in {socket.AF_INET, socket.AF_INET6}
            return is_tcp and bool(found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    except OSError:
        return False
