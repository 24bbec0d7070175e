# SPDX-License-Identifier: Apache-2.0
"""What evictions, as those of `kubectl drain`, may take at one time, on a real API server with its own disruption controller."""

import pytest

from e2e.cluster.progress import wait_until
from e2e.kubectl import Kubectl, KubectlError
from e2e.suite.operator_process import OperatorProcess
from e2e.suite.served import a_resource, hold, wait_for

pytestmark = [pytest.mark.apiserver, pytest.mark.timeout(900)]  # The first test may have to build Kubernetes.


def may_evict(kubectl: Kubectl, budget: str) -> bool:
    status = (kubectl.get("poddisruptionbudget", budget) or {}).get("status", {})
    return bool(status.get("disruptionsAllowed", 0) > 0)


def test_one_engine_of_a_role_may_be_evicted_and_the_next_when_it_has_been_replaced(
    kubectl: Kubectl, replica: OperatorProcess
) -> None:
    kubectl.apply(a_resource(decode={"parallelism": {"tensor": 8}, "replicas": 2}))
    wait_for(kubectl, "Ready")
    wait_until("an eviction to be allowed", lambda: may_evict(kubectl, "qwen-decode"), timeout=60)
    hold(kubectl, "qwen-decode-1", "tandem.dev/held-by-a-test")
    kubectl.evict("qwen-decode-1")
    with pytest.raises(KubectlError, match="disruption budget"):
        kubectl.evict("qwen-decode-0")
    kubectl.evict("qwen-prefill-0")  # The other role has a budget of its own, and a single engine may go.
    hold(kubectl, "qwen-decode-1")
    wait_until("the next eviction to be allowed", lambda: may_evict(kubectl, "qwen-decode"), timeout=60)
    kubectl.evict("qwen-decode-0")
