# SPDX-License-Identifier: Apache-2.0
"""The NetworkPolicy of the engines: who may connect to them.

Their listeners ask for a key with `Push`, but HTTP and NIXL's own listener ask nobody who they are. What leaves an engine isn't
limited: where its model, its logs and its caches are is the user's matter. The front door has no policy: it is there for whoever
the user lets reach it. EFA doesn't pass the kernel, so no policy filters KV there.
"""

from collections.abc import Iterator
from typing import Any, Final

from tandem_connector.contract.environment import HTTP_PORT
from tandem_operator.api.names import ENGINE_LABEL, FRONT_DOOR_ROLE, engines_policy_name
from tandem_operator.api.network import EngineNetwork
from tandem_operator.plan.children import ENGINE_APPLICATION, labels, metadata, selector
from tandem_operator.plan.resolved import EngineAccess, Resolved
from tandem_operator.plan.types import Defaults, Manifest

_COMPONENT: Final = "engines"


def engine_access(given: EngineNetwork, defaults: Defaults) -> EngineAccess:
    """What the spec says, and where the operator is, which converses with engines to see that KV moves."""
    operator: Manifest = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": defaults.namespace}},
        "podSelector": {"matchLabels": {"app.kubernetes.io/component": "operator"}},
    }
    return EngineAccess(
        enabled=given.enabled is not False,
        allow_http_from=tuple(peer.model_dump(by_alias=True, exclude_none=True) for peer in given.allow_http_from),
        operator=(operator,) if defaults.namespace else (),
    )


def network_policies(resolved: Resolved) -> Iterator[Manifest]:
    """One for the engines of both roles, unless there is to be none."""
    if not resolved.network.enabled:
        return
    engines = {"matchLabels": {ENGINE_LABEL: resolved.name}}
    of = labels(resolved.name, _COMPONENT, ENGINE_APPLICATION)
    http: dict[str, Any] = {"ports": [{"protocol": "TCP", "port": HTTP_PORT}]}
    callers = _callers(resolved)
    yield {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(resolved, engines_policy_name(resolved.name), of),
        "spec": {
            "podSelector": engines,
            "policyTypes": ["Ingress"],
            "ingress": [
                # All ports: over TCP, NIXL listens on ports that the kernel chooses.
                {"from": [{"podSelector": engines}]},
                {**http, "from": callers} if callers else http,
            ],
        },
    }


def _callers(resolved: Resolved) -> list[Manifest]:
    """Who may use the HTTP port beside the engines; empty for everybody."""
    given = list(resolved.network.allow_http_from)
    if not resolved.front_door.enabled and not given:
        return []
    front_door = [{"podSelector": {"matchLabels": selector(resolved.name, FRONT_DOOR_ROLE)}}]
    return [*(front_door if resolved.front_door.enabled else ()), *resolved.network.operator, *given]
