# SPDX-License-Identifier: Apache-2.0
"""An external-metrics API whose one number a test sets: what KEDA is to a HorizontalPodAutoscaler, as a thread of the test.

It is an aggregated API: the API server passes on requests for its group to the Service that the APIService names, here to
this machine.
"""

import json
import ssl
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from e2e.cluster.local.pki import Authority
from e2e.cluster.progress import wait_until
from e2e.kubectl import Kubectl

METRIC = "waiting-requests"

_GROUP = "external.metrics.k8s.io"
_API_VERSION = f"{_GROUP}/v1beta1"
_API_SERVICE = f"v1beta1.{_GROUP}"
_SERVICE = "metrics-stub"


class Gauge:
    """The number."""

    value = 0


@contextmanager
def external_metric(kubectl: Kubectl, folder: Path) -> Iterator[Gauge]:
    """While it lasts, the metric `METRIC` of every namespace is what the gauge says."""
    authority, gauge = Authority.new(), Gauge()
    # The API server asks for the Service's name, whatever address it leads to.
    authority.issue(_SERVICE, hosts=(f"{_SERVICE}.{kubectl.namespace}.svc",)).write(folder, _SERVICE)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / f"{_SERVICE}.crt", folder / f"{_SERVICE}.key")
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(gauge))
    # A client that is slow to shake hands is waited for in its own thread.
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        kubectl.apply(*_registration(kubectl.namespace, server.server_address[1], authority.certificate))
        wait_until("the metrics API to be available", lambda: _is_available(kubectl), timeout=60)
        yield gauge
    finally:
        kubectl.delete("apiservice", _API_SERVICE)
        server.shutdown()
        server.server_close()
        thread.join()


def _registration(namespace: str, port: int, certificate: bytes) -> tuple[dict[str, Any], ...]:
    service = {"name": _SERVICE, "namespace": namespace, "port": port}
    return (
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": _SERVICE},
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        },
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": _API_SERVICE},
            "spec": {
                "group": _GROUP,
                "version": "v1beta1",
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "service": service,
                "caBundle": b64encode(certificate).decode(),
            },
        },
    )


def _is_available(kubectl: Kubectl) -> bool:
    found = kubectl.get("apiservice", _API_SERVICE) or {}
    conditions = found.get("status", {}).get("conditions", ())
    return any((each["type"], each["status"]) == ("Available", "True") for each in conditions)


def _handler(gauge: Gauge) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(_answer(self.path.partition("?")[0], gauge.value)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


def _answer(path: str, value: int) -> dict[str, Any]:
    if not path.endswith(f"/{METRIC}"):
        return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": _API_VERSION, "resources": []}
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    item = {"metricName": METRIC, "metricLabels": {}, "timestamp": now, "value": str(value)}
    return {"kind": "ExternalMetricValueList", "apiVersion": _API_VERSION, "metadata": {}, "items": [item]}
