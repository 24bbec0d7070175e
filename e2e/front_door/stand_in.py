# SPDX-License-Identifier: Apache-2.0
"""A server that a front door takes for a decode engine, and that computes nothing.

Run as `python -m e2e.front_door.stand_in HOST PORT [fails]`. It answers chats of up to five tokens, whole or streamed, a token in
0.1 s, and calls its model by its address. What it says in a whole answer is what it was asked, as JSON. With `fails` it is well by its
`/health`, and answers every turn with 500. A stream that is asked for with `"stalls": true` never gets further than its first token.
"""

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_MOST = 5
_TOKEN_SECONDS = 0.1


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Say nothing of each request."""

    def do_GET(self) -> None:
        """Whatever is asked: well."""
        self._answer(200, b"")

    def do_POST(self) -> None:
        """A turn."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "fails" in sys.argv[3:]:
            self._answer(500, b"")
            return
        tokens = min(body["max_tokens"], _MOST)
        if body.get("stream"):
            self._stream(tokens, stalls=body.get("stalls", False))
        else:
            time.sleep(tokens * _TOKEN_SECONDS)
            self._answer(200, json.dumps(_said("message", "stop", json.dumps(body))).encode())

    def _stream(self, tokens: int, *, stalls: bool) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number in range(tokens):
            time.sleep(_TOKEN_SECONDS)
            said = _said("delta", "stop" if number == tokens - 1 else None)
            self._chunk(f"data: {json.dumps(said)}\n\n".encode())
            if stalls:
                # Until the other side goes.
                self.rfile.read(1)
                return
        self._chunk(b"data: [DONE]\n\n")
        self._chunk(b"")

    def _chunk(self, content: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(content), content))

    def _answer(self, status: int, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def _said(kind: str, finish_reason: str | None, content: str = "x") -> dict[str, Any]:
    choice = {"index": 0, kind: {"role": "assistant", "content": content}, "finish_reason": finish_reason}
    return {"model": ":".join(sys.argv[1:3]), "choices": [choice]}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Those who asked may have gone meanwhile."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


if __name__ == "__main__":
    _Server((sys.argv[1], int(sys.argv[2])), _Handler).serve_forever()
