# SPDX-License-Identifier: Apache-2.0
"""What `kubectl tandem ui` asks of a real API server: to fetch a pod's `/metrics`, and for the right to."""

import json
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from prometheus_client import CollectorRegistry

from e2e.cluster.interface import Cluster
from e2e.cluster.local.endpoints import free_port
from e2e.kubectl import Kubectl
from tandem_operator.kube.access import find_access
from tandem_operator.kube.client import Client
from tandem_operator.kube.errors import KubeError
from tandem_operator.metrics import Metrics

pytestmark = [pytest.mark.apiserver, pytest.mark.timeout(900)]  # The first test may have to build Kubernetes.


class Engine(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = f"{self.path} {self.headers['Accept']}".encode()
        self.send_response(200 if self.path == "/metrics" else 500)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- its name in the base class
        pass


@pytest.fixture(scope="module")
def address() -> str:
    """Of this machine, and not loopback, to which an API server connects for nobody. Nothing is sent to find it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no address but loopback")
        found: str = probe.getsockname()[0]
        return found


@pytest.fixture(scope="module")
def port(address: str) -> Iterator[int]:
    server = HTTPServer((address, 0), Engine)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def pod(kubectl: Kubectl, address: str) -> str:
    """One that no node takes, and that says that it is at this machine's address."""
    spec = {"containers": [{"name": "engine", "image": "none"}], "nodeSelector": {"rack": "none"}}
    kubectl.run("wait", "--for=create", "serviceaccount/default", "--timeout=30s")
    kubectl.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "engine"}, "spec": spec})
    status = json.dumps({"status": {"podIP": address, "podIPs": [{"ip": address}]}})
    kubectl.run("patch", "pod", "engine", "--subresource=status", "--type=merge", "-p", status)
    return "engine"


@pytest.fixture
async def client(control_plane: Cluster) -> AsyncIterator[Client]:
    access = await find_access(control_plane.kubeconfig)
    async with Client(access.configuration, Metrics(CollectorRegistry()), timeout=20) as client:
        yield client


async def test_a_pods_answer_comes_through_the_api_server_as_it_is(
    kubectl: Kubectl, client: Client, pod: str, port: int
) -> None:
    assert await client.get_of_pod(kubectl.namespace, pod, port, "/metrics") == "/metrics text/plain"


async def test_a_pod_that_does_not_answer_is_an_error_that_says_why(
    kubectl: Kubectl, client: Client, pod: str, port: int, address: str
) -> None:
    with pytest.raises(KubeError, match="connection refused"):
        await client.get_of_pod(kubectl.namespace, pod, free_port(address), "/metrics")
    with pytest.raises(KubeError, match="/elsewhere"):
        await client.get_of_pod(kubectl.namespace, pod, port, "/elsewhere")
    with pytest.raises(KubeError, match="not found"):
        await client.get_of_pod(kubectl.namespace, "none", port, "/metrics")


def test_of_kubernetes_own_roles_edit_has_the_right_to_it_and_view_has_not(kubectl: Kubectl) -> None:
    def may(role: str) -> bool:
        rules = (kubectl.get("clusterrole", role) or {})["rules"]
        return any("pods/proxy" in rule.get("resources", ()) and "get" in rule["verbs"] for rule in rules)

    assert (may("edit"), may("view")) == (True, False)
