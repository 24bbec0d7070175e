# SPDX-License-Identifier: Apache-2.0
"""What a fork must not have of the server that it was forked from."""

import errno
import os
import socket
import stat
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
        if not stat.S_ISSOCK(os.fstat(number).st_mode):
            return False
    except OSError:  # the folder's own, closed by now
        return False
    # Never copied: a copy that is left open hides from whoever waits for a pipe's end that the process at the other end has died.
    found = socket.socket(fileno=number)
    try:
        is_tcp = found.family in {socket.AF_INET, socket.AF_INET6} and found.type == socket.SOCK_STREAM
        return is_tcp and bool(found.getsockname()[1]) and not _is_connected(found)
    finally:
        found.detach()


def _is_connected(found: socket.socket) -> bool:
    try:
        found.getpeername()
    except OSError as error:
        return error.errno != errno.ENOTCONN
    return True
