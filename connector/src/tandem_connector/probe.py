# SPDX-License-Identifier: Apache-2.0
"""Whether an engine is well: exit status 0 when it is, 1 and a line on stderr when it isn't.

Run inside the engine's container as `python3 -I -S .../probe.py [--to-live]`. It imports the standard library only (neither this
package nor vLLM), since the kubelet starts it every few seconds. A server with data-parallel ranks is well when all of them are.
"""

import http.client
import json
import os
import socket
import sys
import time

_HTTP_PORT = 8000
_TIMEOUT_SECONDS = 5
_UNWELL_SECONDS = 30 * 60


class UnwellError(Exception):
    """The engine says that it had better not be used; the text says why."""


def check(host: str, http_port: int, *side_channel_ports: int) -> None:
    """Return when the engine answers at all of its doors: HTTP, and its listener for peers (NIXL's, or the exchange's) for each rank.

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
    for port in side_channel_ports:
        socket.create_connection((host, port), timeout=_TIMEOUT_SECONDS).close()


def check_status(path: str, patience: float) -> None:
    """Return when the engine doesn't call itself unwell, or has for no more than `patience` seconds.

    vLLM's `/health` only tells that the engine's process lives. An engine without the exchange has no such file.

    Raises:
        UnwellError: it does.
    """
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 - importing pathlib takes longer than all the rest
            status = json.load(file)
        why, since = status["unhealthy"], status["since"]
    except (OSError, ValueError, TypeError, KeyError):
        return
    if why and time.monotonic() - since >= patience:
        raise UnwellError(why)


def main() -> int:
    """Check the engine whose environment this process shares.

    `--to-live`: whether it is worth keeping. An engine that is unwell mostly waits for others, and is well again when these
    are gone; a restart would cost its weights and all of its KV, so it has half an hour.
    """
    host = os.environ["VLLM_NIXL_SIDE_CHANNEL_HOST"]
    port, ranks = (
        int(os.environ["VLLM_NIXL_SIDE_CHANNEL_PORT"]),
        range(int(os.environ.get("TANDEM_DATA_PARALLEL", "1"))),
    )
    path, patience = os.environ.get("TANDEM_STATUS_FILE", ""), _UNWELL_SECONDS if "--to-live" in sys.argv[1:] else 0
    try:
        for rank in ranks:
            check_status(f"{path}.dp{rank}" if rank else path, patience)
        check(host, _HTTP_PORT, *(port + rank for rank in ranks))
    except (OSError, http.client.HTTPException, UnwellError) as error:
        print(f"{host}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
