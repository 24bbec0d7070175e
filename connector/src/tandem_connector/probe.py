# SPDX-License-Identifier: Apache-2.0
"""Whether an engine answers at both of its doors: exit status 0 when it does, 1 and a line on stderr when it doesn't.

Run inside the engine's container as `python3 -I -S .../probe.py`. It imports the standard library only (neither this package
nor vLLM), since the kubelet starts it every few seconds.
"""

import http.client
import os
import socket
import sys

_HTTP_PORT = 8000
_TIMEOUT_SECONDS = 5


def check(host: str, http_port: int, side_channel_port: int) -> None:
    """Return when the engine says that it is well and its listener for peers (NIXL's, or the exchange's) takes connections.

    Raises:
        OSError: nobody listens at one of the ports, or `/health` isn't answered in time.
        http.client.HTTPException: `/health` is answered by something else than 200.
    """
    connection = http.client.HTTPConnection(host, http_port, timeout=_TIMEOUT_SECONDS)
    try:
        connection.request("GET", "/health")
        status = connection.getresponse().status
    finally:
        connection.close()
    if status != http.client.OK:
        raise http.client.HTTPException(f"/health answered {status}")
    # The listener's socket is closed when its thread ends, so a connection is proof enough, and it asks nothing of the engine.
    socket.create_connection((host, side_channel_port), timeout=_TIMEOUT_SECONDS).close()


def main() -> int:
    """Check the engine whose environment this process shares."""
    host = os.environ["VLLM_NIXL_SIDE_CHANNEL_HOST"]
    port = int(os.environ["VLLM_NIXL_SIDE_CHANNEL_PORT"])
    try:
        check(host, _HTTP_PORT, port)
    except (OSError, http.client.HTTPException) as error:
        print(f"{host}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
