# SPDX-License-Identifier: Apache-2.0
"""The operator dies, the resource is edited: the pods stay, and follow."""

import pytest

from e2e.cluster.progress import wait_until
from e2e.installation import NAMESPACE, engine_pods
from e2e.kubectl import Kubectl, KubectlError
from e2e.suite.engines.conftest import TOOLS, Deployment


def uids_and_restarts(deployment: Deployment) -> dict[str, int]:
    return {
        pod["metadata"]["uid"]: sum(each["restartCount"] for each in pod["status"]["containerStatuses"])
        for pod in engine_pods(deployment.kubectl, deployment.name)
    }


def test_killing_both_operator_pods_does_not_touch_the_engines(deployment: Deployment) -> None:
    before = uids_and_restarts(deployment)
    operator = Kubectl(deployment.cluster, NAMESPACE)

    operator.run("delete", "pods", "-l", "app.kubernetes.io/name=tandem", "--grace-period=0", "--force")
    operator.run("rollout", "status", "deployment", "--timeout=120s", timeout=150)
    # An edit that needs no new engine shows that the new operator is at work.
    deployment.edit({"frontDoor": {"service": {"annotations": {"example.com/edited": "yes"}}}})
    wait_until(
        "the new operator to act",
        lambda: (
            (deployment.kubectl.get("service", deployment.name) or {})["metadata"]
            .get("annotations", {})
            .get("example.com/edited")
        ),
        120,
    )

    assert uids_and_restarts(deployment) == before


def test_an_edited_argument_reaches_the_engines_of_both_roles(deployment: Deployment) -> None:
    deployment.restart_with(*TOOLS)

    for pod in engine_pods(deployment.kubectl, deployment.name):
        command = deployment.kubectl.run(
            "exec", pod["metadata"]["name"], "-c", "engine", "--", "cat", "/proc/1/cmdline"
        )
        assert set(TOOLS) <= set(command.split("\0"))


def test_a_bad_edit_is_refused_with_the_field_and_the_remedy_and_nothing_changes(deployment: Deployment) -> None:
    before = uids_and_restarts(deployment)

    with pytest.raises(
        KubectlError, match=r"spec\.engine\.args: Forbidden: must not contain --port=1: Tandem needs it as it is"
    ):
        deployment.edit({"engine": {"args": ["--port=1"]}})

    assert uids_and_restarts(deployment) == before
