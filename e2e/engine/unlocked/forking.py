# SPDX-License-Identifier: Apache-2.0
"""What a fork must not have of the server that it was forked from."""

import errno
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
            if _has_a_port(number):
                os.dup2(null.fileno(), number)


def _has_a_port(number: int) -> bool:
    """Whether it is a TCP socket that listens, or will: vLLM's server takes its port first, and listens when the engine is there."""
    try:
        with socket.socket(fileno=os.dup(number)) as found:
            if found.family not in {socket.AF_INET, socket.AF_INET6} or not found.getsockname()[1]:
                return False
            return not _is_connected(found)
    except OSError:
        return False


def _is_connected(found: socket.socket) -> bool:
    try:
        found.getpeername()
    except OSError as error:
        return error.errno != errno.ENOTCONN
    return True
