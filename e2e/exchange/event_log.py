# SPDX-License-Identifier: Apache-2.0
"""Writes down the KV events that engines publish, decoded by vLLM's own types: the engine environment's Python runs it.

`python event_log.py FILE PORT...` listens on each port of loopback, to which an engine's publisher connects, and adds a
JSON object to the file for each event: the port it came to, its class, and its fields. Bytes are in hexadecimal.
"""

import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import zmq
from vllm.distributed.kv_events import KVEventBatch


def told(value: Any) -> Any:
    """The value with bytes as text."""
    match value:
        case bytes():
            return value.hex()
        case list() | tuple():
            return [told(each) for each in value]
        case dict():
            return {name: told(each) for name, each in value.items()}
        case _:
            return value


def main() -> None:
    """Listen until the process is ended."""
    path, ports = Path(sys.argv[1]), [int(port) for port in sys.argv[2:]]
    context, poller, decoder = zmq.Context(), zmq.Poller(), msgspec.msgpack.Decoder(KVEventBatch)
    sockets: dict[Any, int] = {}
    for port in ports:
        socket = context.socket(zmq.SUB)
        socket.subscribe(b"")
        socket.bind(f"tcp://127.0.0.1:{port}")
        poller.register(socket, zmq.POLLIN)
        sockets[socket] = port
    expected = dict.fromkeys(ports, 0)
    with path.open("w", buffering=1) as file:
        while True:
            for socket, _ in poller.poll():
                port = sockets[socket]
                _, number, payload = socket.recv_multipart()
                if int.from_bytes(number, "big") != expected[port]:
                    raise SystemExit(f"batch {int.from_bytes(number, 'big')} of {port} came, not {expected[port]}")
                expected[port] += 1
                for event in decoder.decode(payload).events:
                    fields = {name: told(getattr(event, name)) for name in event.__struct_fields__}
                    file.write(json.dumps({"port": port, "event": type(event).__name__, **fields}) + "\n")


if __name__ == "__main__":
    main()
