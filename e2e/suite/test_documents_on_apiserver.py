# SPDX-License-Identifier: Apache-2.0
"""Commands of the documents, taken from their pages, on a real API server with an operator and simulated P5en nodes."""

import base64
import json
import re
from typing import Any

import pytest

from e2e.cluster.progress import wait_until
from e2e.kubectl import Kubectl
from e2e.suite.operator_process import OperatorProcess
from e2e.suite.served import a_resource, engines, wait_for
from tests.documents.written import Written

pytestmark = [pytest.mark.apiserver, pytest.mark.timeout(900)]  # The first test may have to build Kubernetes.

SAMPLE = "qwen3-32b"
VARYING = {
    r"test-\d+": "NAMESPACE",
    r"\b[0-9a-f]{10}\b": "REVISION",
    r"\bp5en-\d\b": "NODE",
    r"\bnn-leaf-\d\b": "LEAF",
    r"127\.0\.0\.1:\d+": "ADDRESS",
    r"\btable \d+": "table N",
    r" {2,}": " ",
}
"""What another run prints otherwise, and columns that are as wide as what is in them."""


def alike(text: str) -> list[str]:
    """The lines, without what another run prints otherwise, and without their order, which is that of nodes."""
    for pattern, word in VARYING.items():
        text = re.sub(pattern, word, text)
    return sorted(line.rstrip() for line in text.strip().splitlines())


def exchange_key(kubectl: Kubectl) -> tuple[str, dict[str, Any]]:
    """The Secret's name, and what is in it."""
    [secret] = kubectl.list("secret", f"tandem.dev/resource={SAMPLE}")
    return secret["metadata"]["name"], json.loads(base64.b64decode(secret["data"]["exchange.json"]))


def test_the_sample_for_p5en_is_applied_looked_at_and_given_another_key(
    written: Written, kubectl: Kubectl, replica: OperatorProcess
) -> None:
    assert "created" in written.run("kubectl apply -f manifests/samples/qwen3-32b-p5en.yaml")
    wait_until("the exchange's key", lambda: kubectl.list("secret", f"tandem.dev/resource={SAMPLE}"), timeout=60)
    named = rf"pdi/{SAMPLE}"
    kubectl.run("wait", "--for=condition=SpecValid", named, "--timeout=60s")

    for table in ("kubectl get pdi", "kubectl get pdi -A"):
        assert SAMPLE in written.run(table)
    for watched in ("kubectl get pdi --watch", f"kubectl get pdi {SAMPLE} --watch"):
        assert "READY" in written.first_lines(watched, until=SAMPLE)
    for conditions in (
        "kubectl get pdi NAME -o jsonpath='{range .status.cond",
        f"kubectl get pdi {SAMPLE} -o jsonpath=",
    ):
        rows = [line.split("\t") for line in written.run(conditions, NAME=SAMPLE).splitlines()]
        assert ["SpecValid", "True", "Valid", "the spec is understood"] in rows
        assert {len(row) for row in rows} == {4}

    nodes = [
        line.split() for line in written.run("kubectl get nodes -l node.kubernetes.io/instance-type=").splitlines()
    ]
    assert nodes == [["N", "GPU", "EFA"], *([f"p5en-{number}", "8", "16"] for number in range(4))]

    name, former = exchange_key(kubectl)
    assert "patched" in written.run("secret=$(kubectl get secret")
    renamed, key = exchange_key(kubectl)
    assert (renamed, key["previousSecretKey"]) == (name, former["secretKey"])
    assert key["secretKey"] != former["secretKey"]

    # The operator, which writes what it sees, must not take this for untrue.
    assert replica.stop() == 0
    engine = {"pod": f"{SAMPLE}-decode-0", "uid": "u", "role": "decode", "reason": "NothingMoved", "message": "why"}
    times = {"since": "2026-12-01T00:00:00Z", "restartAt": "2026-12-01T00:00:30Z", "restarts": 1}
    status = {"status": {"quarantined": [{**engine, **times}]}}
    kubectl.run("patch", named, "--subresource=status", "--type=merge", "-p", json.dumps(status))
    shown = written.run("kubectl get pdi NAME -o jsonpath='{range .status.quar", NAME=SAMPLE)
    assert shown.rstrip("\n").split("\t") == [f"{SAMPLE}-decode-0", "NothingMoved", "1", times["restartAt"], "why"]


def test_engines_of_two_revisions_are_told_apart_and_both_roles_are_scaled_by_hand(
    written: Written, kubectl: Kubectl, replica: OperatorProcess
) -> None:
    kubectl.apply(a_resource(prefill={"parallelism": {"tensor": 8}}, decode={"parallelism": {"tensor": 8}}))
    wait_for(kubectl, "Ready")

    current = json.loads(written.run("kubectl get pdi qwen -o jsonpath="))["current"]
    pods = written.run("kubectl get pods -l tandem.dev/resource=qwen")
    assert pods.splitlines()[0].split()[-1] == "REVISION"
    assert {line.split()[-1] for line in pods.splitlines() if re.match("qwen-(prefill|decode)-", line)} == {current}
    assert current in written.run("kubectl get controllerrevisions")

    scalers = written.run("kubectl get pdscaler")
    assert [line.split()[0] for line in scalers.splitlines()[1:]] == ["qwen-decode", "qwen-prefill"]
    assert written.run("kubectl scale disaggregatedinferencescaler/qwen-decode").count("scaled") == 1
    wait_until("six decode engines", lambda: len(engines(kubectl)) == 7, timeout=60)
    assert written.run("kubectl scale disaggregatedinferencescaler/qwen-prefill").count("scaled") == 2
    wait_until("no engine", lambda: not engines(kubectl), timeout=60)


def test_the_plugin_prints_what_its_page_shows(written: Written, kubectl: Kubectl, replica: OperatorProcess) -> None:
    kubectl.apply(a_resource(decode={"parallelism": {"tensor": 8}, "replicas": 2}))
    wait_for(kubectl, "Ready")
    wait_for(kubectl, "Progressing", "False")

    for begins, status in {"status": 0, "topology": 0, "doctor": 1}.items():
        command = written.find(f"kubectl tandem {begins}")
        assert alike(written.run(command.text, status)) == alike(command.printed), begins
    page = written.find("kubectl tandem ui")
    assert alike(written.first_lines(page.text, until="ends it")) == alike(page.printed)
    drain = written.find("kubectl tandem drain")
    assert alike(written.run(drain.text)) == alike(drain.printed)

    kubectl.run("patch", "pdi", "qwen", "--type=merge", "-p", json.dumps({"spec": {"decode": {"replicas": 5}}}))
    wait_for(kubectl, "Degraded")
    wait_until("three decode engines", lambda: "3 of 5" in kubectl.run("get", "pdi", "qwen", "-o", "json"), timeout=60)
    explain = written.find("kubectl tandem explain")
    assert alike(written.run(explain.text, status=1)) == alike(explain.printed)
