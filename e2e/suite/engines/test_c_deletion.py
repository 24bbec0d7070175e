# SPDX-License-Identifier: Apache-2.0
"""The resource goes, and all that it had."""

import pytest

from e2e.cluster.progress import wait_until
from e2e.installation import front_door
from e2e.suite.engines.conftest import Deployment

OWNED_KINDS = (
    "statefulsets,deployments,replicasets,pods,services,configmaps,secrets,serviceaccounts,roles,rolebindings,"
    "endpointslices"
)


def only_new(deployment: Deployment, selector: str, old: set[str]) -> bool:
    items = deployment.kubectl.list(OWNED_KINDS, selector)
    kinds, uids = {item["kind"] for item in items}, {item["metadata"]["uid"] for item in items}
    return {"StatefulSet", "Deployment", "Service"} <= kinds and not old & uids


@pytest.mark.long
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
