# SPDX-License-Identifier: Apache-2.0
"""The front door: vllm-router, which finds the engines by their labels; with `NixlPull` it also runs the two legs of a request."""

from typing import Any, Final

from tandem_connector.contract.environment import HTTP_PORT
from tandem_connector.contract.types import Role
from tandem_operator.api.names import (
    FRONT_DOOR_METRICS_PORT,
    FRONT_DOOR_PORT,
    FRONT_DOOR_ROLE,
    ROUTABLE_LABEL,
    front_door_name,
    routable_name,
)
from tandem_operator.plan.children import FRONT_DOOR_APPLICATION, labels, metadata, selector
from tandem_operator.plan.engines import START_LIMIT_SECONDS
from tandem_operator.plan.overlay import overlaid
from tandem_operator.plan.resolved import Resolved
from tandem_operator.plan.revision import Revision
from tandem_operator.plan.types import Manifest

ROUTER_CONTAINER: Final = "router"
_NON_ROOT: Final = 65532
_OWN_START_SECONDS: Final = 600
_START_PERIOD_SECONDS: Final = 2
_STREAMS_END_WITHIN_SECONDS: Final = 600
"""How long answers that a router's pod is passing on may take to end once the pod is deleted."""
_UNKNOWN_AFTER_SECONDS: Final = 5
"""From the deletion of a router's pod until the Service leads nobody there."""

FAULTS: Final = (
    # vllm-router's own defaults are a check a minute, three failures and two successes: an engine that hangs would get turns for
    # three minutes, and one that was slow for a moment none for two.
    ("--health-check-interval-secs", 5),
    ("--health-failure-threshold", 2),
    ("--health-success-threshold", 1),
    # A request is tried five times within half a second, with `consistent_hash` at the same engine until its circuit opens: it
    # has to open before the request's last tries (10 by default, more than a request has). One success closes it.
    ("--cb-failure-threshold", 3),
    ("--cb-success-threshold", 1),
    ("--cb-timeout-duration-secs", 5),
    # The router takes no note of other pods while it waits for a new one to answer, which by default is ten minutes, and it asks
    # every half minute. A pod that doesn't answer for so long isn't ready, and is told of anew when it is.
    ("--worker-startup-timeout-secs", 30),
    ("--worker-startup-check-interval", 1),
)
"""When the router takes an engine for lost and for well again. `docs/front-door.md` says what comes of it."""


def front_door(resolved: Resolved, fronted: Revision) -> tuple[Manifest, ...]:
    """All of the front door's objects, in the order in which they are to be applied. It leads to engines as those of `fronted`.

    Disabled, Services are left: the front door's own leads straight to the decode engines that take turns, and a headless one
    gives a gateway their addresses.

    Raises:
        InvalidSpec: when `frontDoor.podTemplate` cannot be merged.
    """
    if not resolved.front_door.enabled:
        engines = {**selector(resolved.name, Role.DECODE), ROUTABLE_LABEL: "true"}
        return (_service(resolved, engines), _addresses(resolved, engines))
    return (
        _service_account(resolved),
        _role(resolved),
        _role_binding(resolved),
        _service(resolved, selector(resolved.name, FRONT_DOOR_ROLE)),
        _deployment(resolved, fronted),
    )


def endpoint(resolved: Resolved) -> str:
    """URL of the API inside the cluster, without `/v1`."""
    return f"http://{front_door_name(resolved.name)}.{resolved.namespace}.svc:{FRONT_DOOR_PORT}"


def router_arguments(resolved: Resolved, fronted: Revision) -> list[str]:
    """Arguments of vllm-router 0.1.17, the user's last: of an option that is given twice the last counts.

    Of the engines, those with the label `tandem.dev/routable` that Kubernetes calls ready are used.
    """
    return [
        *_selectors(resolved, fronted),
        *_ranks(fronted),
        "--service-discovery",
        *("--service-discovery-namespace", resolved.namespace),
        *("--service-discovery-port", str(HTTP_PORT)),
        *("--policy", resolved.front_door.policy),
        *("--host", "0.0.0.0"),  # noqa: S104 - a pod's address
        *("--port", str(FRONT_DOOR_PORT)),
        *("--prometheus-host", "0.0.0.0"),  # noqa: S104
        *("--prometheus-port", str(FRONT_DOOR_METRICS_PORT)),
        *(word for option, value in FAULTS for word in (option, str(value))),
        *resolved.front_door.arguments,
    ]


def _selectors(resolved: Resolved, fronted: Revision) -> list[str]:
    """A selector takes all words up to the next option."""
    decode = _words(resolved, Role.DECODE)
    if fronted.exchanges:
        # Decode asks prefill itself: to the router, its engines are plain vLLM servers.
        return ["--selector", *decode]
    return [
        *("--prefill-selector", *_words(resolved, Role.PREFILL)),
        *("--decode-selector", *decode),
        "--vllm-pd-disaggregation",
        *("--kv-connector", "nixl"),
    ]


def _ranks(fronted: Revision) -> list[str]:
    """A data-parallel rank is where a session is warm: the router chooses it, in place of vLLM's server, which takes turns.

    All pods have to have as many, which the label that it selects by sees to (`plan/topology.py`).
    """
    return ["--intra-node-data-parallel-size", str(fronted.ranks)] if fronted.ranks > 1 else []


def _words(resolved: Resolved, role: Role) -> list[str]:
    wanted = {**selector(resolved.name, role), ROUTABLE_LABEL: "true"}
    return [f"{label}={value}" for label, value in wanted.items()]


def _metadata(resolved: Resolved, annotations: dict[str, str] | None = None) -> dict[str, Any]:
    return metadata(resolved, front_door_name(resolved.name), _labels(resolved), annotations)


def _labels(resolved: Resolved) -> dict[str, str]:
    return labels(resolved.name, FRONT_DOOR_ROLE, FRONT_DOOR_APPLICATION)


def _service_account(resolved: Resolved) -> Manifest:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _metadata(resolved)}


def _role(resolved: Resolved) -> Manifest:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": _metadata(resolved),
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}],
    }


def _role_binding(resolved: Resolved) -> Manifest:
    name = front_door_name(resolved.name)
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": _metadata(resolved),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": resolved.namespace}],
    }


def _service(resolved: Resolved, to: dict[str, str]) -> Manifest:
    gateway = resolved.front_door
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(resolved, dict(gateway.service_annotations)),
        "spec": {
            "type": gateway.service_type,
            "selector": to,
            "ports": [{"name": "http", "port": FRONT_DOOR_PORT, "targetPort": "http", "protocol": "TCP"}],
        },
    }


def _addresses(resolved: Resolved, of: dict[str, str]) -> Manifest:
    """By DNS, the addresses of the engines that take turns: those that are ready, don't drain and are of a revision that takes turns.

    The headless Service of the StatefulSet names all engines, also those that only start.
    """
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(resolved, routable_name(resolved.name), _labels(resolved)),
        "spec": {
            "type": "ClusterIP",
            "clusterIP": "None",
            "selector": of,
            "ports": [{"name": "http", "port": HTTP_PORT, "targetPort": "http", "protocol": "TCP"}],
        },
    }


def _deployment(resolved: Resolved, fronted: Revision) -> Manifest:
    gateway = resolved.front_door
    name = front_door_name(resolved.name)
    template = {
        "metadata": {"labels": _labels(resolved)},
        "spec": {
            "serviceAccountName": name,
            "automountServiceAccountToken": True,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": _UNKNOWN_AFTER_SECONDS + _STREAMS_END_WITHIN_SECONDS,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": _NON_ROOT,
                "runAsGroup": _NON_ROOT,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [_router(resolved, fronted)],
        },
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(resolved),
        "spec": {
            "replicas": gateway.replicas,
            # Its pods are ready when engines are, which is no fault of theirs.
            "progressDeadlineSeconds": START_LIMIT_SECONDS + _OWN_START_SECONDS,
            "selector": {"matchLabels": selector(resolved.name, FRONT_DOOR_ROLE)},
            "template": overlaid(template, gateway.overlay, field="spec.frontDoor.podTemplate", needs=ROUTER_CONTAINER),
        },
    }


def _router(resolved: Resolved, fronted: Revision) -> dict[str, Any]:
    gateway = resolved.front_door
    return {
        "name": ROUTER_CONTAINER,
        "image": gateway.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["vllm-router"],
        "args": router_arguments(resolved, fronted),
        "ports": [
            {"name": "http", "containerPort": FRONT_DOOR_PORT, "protocol": "TCP"},
            {"name": "metrics", "containerPort": FRONT_DOOR_METRICS_PORT, "protocol": "TCP"},
        ],
        **({"resources": dict(gateway.resources)} if gateway.resources else {}),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        # 503 until the router knows an engine (with `NixlPull`: of each role) that is well: being ready means that a turn
        # can be served.
        # On a node without a core to spare the router's Python takes minutes to start. Liveness would end it again and again.
        "startupProbe": {
            **_get("/liveness"),
            "periodSeconds": _START_PERIOD_SECONDS,
            "failureThreshold": _OWN_START_SECONDS // _START_PERIOD_SECONDS,
        },
        "readinessProbe": {**_get("/readiness"), "periodSeconds": 5, "failureThreshold": 2},
        "livenessProbe": {**_get("/liveness"), "periodSeconds": 20, "failureThreshold": 6},
        # On SIGTERM it takes no more connections and ends when its last answer has. Until all nodes know that the pod is going,
        # they still lead clients to it.
        "lifecycle": {"preStop": {"sleep": {"seconds": _UNKNOWN_AFTER_SECONDS}}},
    }


def _get(path: str) -> dict[str, Any]:
    return {"httpGet": {"path": path, "port": "http", "scheme": "HTTP"}, "timeoutSeconds": 5}
