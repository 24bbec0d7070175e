# SPDX-License-Identifier: Apache-2.0
"""The resource is edited, the operator dies, the resource goes: the pods follow, stay, and go."""

import pytest

from e2e.cluster.progress import wait_until
from e2e.installation import NAMESPACE, engine_pods, front_door
from e2e.kubectl import Kubectl, KubectlError
from e2e.ready import wait_until_ready
from e2e.suite.engines.conftest import Deployment

OWNED_KINDS = (
    "statefulsets,deployments,replicasets,pods,services,configmaps,secrets,serviceaccounts,roles,rolebindings,"
    "endpointslices"
)


def uids_and_restarts(deployment: Deployment) -> dict[str, int]:
    return {
        pod["metadata"]["uid"]: sum(each["restartCount"] for each in pod["status"]["containerStatuses"])
        for pod in engine_pods(deployment.kubectl, deployment.name)
    }


def only_new(deployment: Deployment, selector: str, old: set[str]) -> bool:
    items = deployment.kubectl.list(OWNED_KINDS, selector)
    kinds, uids = {item["kind"] for item in items}, {item["metadata"]["uid"] for item in items}
    return {"StatefulSet", "Deployment", "Service"} <= kinds and not old & uids


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
    before = set(uids_and_restarts(deployment))
    arguments = [*deployment.resource["spec"]["engine"]["args"], "--max-num-seqs=7"]

    deployment.edit({"engine": {"args": arguments}})
    wait_until(
        "two new pods",
        lambda: (
            len(pods := engine_pods(deployment.kubectl, deployment.name)) == 2
            and not before & {pod["metadata"]["uid"] for pod in pods}
        ),
        300,
    )
    wait_until_ready(deployment.kubectl, deployment.name)

    for pod in engine_pods(deployment.kubectl, deployment.name):
        command = deployment.kubectl.run(
            "exec", pod["metadata"]["name"], "-c", "engine", "--", "cat", "/proc/1/cmdline"
        )
        assert "--max-num-seqs=7" in command.split("\0")


def test_a_bad_edit_is_refused_with_the_field_and_the_remedy_and_nothing_changes(deployment: Deployment) -> None:
    before = uids_and_restarts(deployment)

    with pytest.raises(
        KubectlError, match=r"spec\.engine\.args: Forbidden: must not contain --port=1: Tandem needs it as it is"
    ):
        deployment.edit({"engine": {"args": ["--port=1"]}})

    assert uids_and_restarts(deployment) == before


def test_deleting_the_resource_leaves_nothing_and_its_name_can_be_used_at_once(deployment: Deployment) -> None:
    selector = f"tandem.dev/resource={deployment.name}"
    first = {item["metadata"]["uid"] for item in deployment.kubectl.list(OWNED_KINDS, selector)}
    assert first

    deployment.kubectl.delete("pdi", deployment.name, "--wait=true")
    deployment.kubectl.apply(deployment.resource)
    wait_until("the children of the new resource, and of it only", lambda: only_new(deployment, selector, first), 240)

    deployment.kubectl.delete("pdi", deployment.name, "--wait=true")
    wait_until("everything to be gone", lambda: not deployment.kubectl.list(OWNED_KINDS, selector), 240)
    with (
        pytest.raises(Exception, match="does not exist"),
        front_door(deployment.cluster, deployment.kubectl, deployment.name),
    ):
        pass
