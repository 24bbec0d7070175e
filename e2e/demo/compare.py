# SPDX-License-Identifier: Apache-2.0
"""The same conversation over other ways to run the same model, one after another on the same cores."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from e2e.cluster.interface import Cluster
from e2e.cluster.progress import wait_until
from e2e.demo.held import HeldConversation
from e2e.demo.hold import hold, hold_through
from e2e.demo.plain import NAME, is_ready, plain_account, plain_pod, plain_url, remove
from e2e.engine.environment import EngineEnvironment
from e2e.installation import engine_pods, pools_account
from e2e.kubectl import Kubectl
from e2e.ready import READY_WITHIN, wait_until_ready
from e2e.sample import cpu_resource
from tandem_connector.contract.reverse import Reverse
from tandem_operator.api.transfer import Protocol

HEADLINE: Final = "Push"
"""How the resource's own way is called: Push, both ways."""


@dataclass(frozen=True)
class _Way:
    """Another `spec.transfer` of the resource."""

    name: str
    protocol: Protocol
    reverse: Reverse | None = None


_OTHERS: Final = (
    _Way("Push, no reverse", Protocol.PUSH, Reverse.DISABLED),
    _Way("NixlPull", Protocol.NIXL_PULL),
)


def held_otherwise(cluster: Cluster, environment: EngineEnvironment, model: Path) -> tuple[HeldConversation, ...]:
    """The conversation over each of the other ways, as a user would go it: by applying the resource anew.

    The cluster has room for one pair of engines. In the end the resource is applied as it was, and its engines start.

    Args:
        cluster: where the resource is.
        environment: the engines'.
        model: its folder.

    Raises:
        NotReadyError: engines did not start in time.
        KubectlError: a resource was refused.
        GaveUpError: the plain engine did not start in time.
        openai.APIError: an engine did not answer.
    """
    kubectl, facts = Kubectl(cluster), cluster.facts()
    conversations = []
    for way in _OTHERS:
        resource = cpu_resource(facts, environment, model, protocol=way.protocol, reverse=way.reverse)
        name = resource["metadata"]["name"]
        kubectl.apply(resource)
        wait_until_ready(kubectl, name, what=f"{name} with {way.name}")
        conversations.append(HeldConversation(way.name, hold_through(cluster, kubectl, name, way.name)))
    resource = cpu_resource(facts, environment, model)
    conversations.append(_held_plainly(cluster, kubectl, resource))
    kubectl.apply(resource)
    return tuple(conversations)


def _held_plainly(cluster: Cluster, kubectl: Kubectl, resource: Mapping[str, Any]) -> HeldConversation:
    """In place of the resource."""
    way, name = "plain vLLM", resource["metadata"]["name"]
    kubectl.delete("pdi", name)
    kubectl.apply(plain_pod(resource))
    wait_until(
        f"{way}, one engine without Tandem",
        lambda: is_ready(kubectl.get("pod", NAME) or {}) and not engine_pods(kubectl, name),
        READY_WITHIN,
        every=1.0,
    )
    with plain_url(cluster, kubectl) as url:
        rows = hold(url, lambda: plain_account(kubectl), way)
    remove(kubectl)
    return HeldConversation(way, rows, one_engine=True)


def forget_conversations(kubectl: Kubectl, name: str) -> None:
    """Start the engines anew if they have served: a conversation that they know costs nothing, which compares with nothing."""
    if pools_account(kubectl, name).decode.prompt:
        kubectl.run("delete", "pods", "-l", f"tandem.dev/resource={name},tandem.dev/engine", timeout=180)
        wait_until_ready(kubectl, name)
