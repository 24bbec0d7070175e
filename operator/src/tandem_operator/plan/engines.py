# SPDX-License-Identifier: Apache-2.0
"""One role's engines: the StatefulSet and the ConfigMap with its launch script."""

from collections.abc import Mapping
from typing import Any, Final

from tandem_connector.contract import environment as contract
from tandem_connector.contract.types import Role
from tandem_operator.api.names import (
    BESIDE_ANNOTATION,
    CONFIG_HASH_ANNOTATION,
    DATA_LABEL,
    ENGINE_LABEL,
    KIN_LABEL,
    PEERS_ANNOTATION,
    REVISION_LABEL,
    TENSOR_LABEL,
    role_name,
)
from tandem_operator.plan import accelerate
from tandem_operator.plan.children import ENGINE_APPLICATION, labels, metadata, selector
from tandem_operator.plan.keys import key_mounts, key_variables, key_volumes
from tandem_operator.plan.kin import kin_of
from tandem_operator.plan.launch import LAUNCH_DIRECTORY, LAUNCH_SCRIPT, MODELS_PATH, launch_script
from tandem_operator.plan.overlay import overlaid
from tandem_operator.plan.resolved import Pool, Resolved
from tandem_operator.plan.revision import ENGINE_CONTAINER, SIDE_CHANNEL_PORT_NAME, Part, Revision, hash_of
from tandem_operator.plan.types import Manifest

CONNECTOR_CONTAINER: Final = "connector"

_PROBE: Final = ["python3", "-I", "-S", f"{contract.CONNECTOR_PATH}/tandem_connector/probe.py"]
_START_PERIOD_SECONDS: Final = 10
START_LIMIT_SECONDS: Final = 2 * 60 * 60
"""700 GB of weights take 5 minutes from local NVMe and an hour at 200 MB/s."""
_DRAIN: Final = ["python3", "-I", "-S", f"{contract.CONNECTOR_PATH}/tandem_connector/drain.py"]
_KEEP_ALIVE_SECONDS: Final = 75
"""How long an engine keeps a connection open between requests: longer than any gateway does (nginx: 60 s)."""
_UNKNOWN_AFTER_SECONDS: Final = 5
"""From the deletion of a pod until it gets no more requests: the operator takes its label away, and the front door forgets it."""
_TOLD_WITHIN_SECONDS: Final = 15
"""An engine that hasn't begun to drain by then, though the hook tells it to, doesn't run yet or hangs."""


def part(resolved: Resolved, pool: Pool) -> Part:
    """The role's share of the revision that this makes.

    Raises:
        InvalidSpec: when the role's `podTemplate` cannot be merged.
    """
    launch = {LAUNCH_SCRIPT: launch_script(resolved, pool)}
    template = overlaid(
        _template(resolved, pool, launch), pool.overlay, field=f"spec.{pool.role}.podTemplate", needs=ENGINE_CONTAINER
    )
    return Part(template, launch, pool.gpus)


def config_map(resolved: Resolved, role: Role, launch: Mapping[str, str]) -> Manifest:
    """The launch script, immutable and named after its content.

    A pod of the old configuration whose container restarts in the middle of a roll-out must find the old script, or it
    would run a new configuration under the labels of the old one.
    """
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(resolved, _config_name(resolved, role, launch), _labels(resolved, role)),
        "immutable": True,
        "data": dict(launch),
    }


def stateful_set(resolved: Resolved, revision: Revision, role: Role, name: str, replicas: int) -> Manifest:
    """The role's engines of a revision, started all at once.

    A set's template never changes, as another revision has another set. `RollingUpdate` is for `kubectl rollout restart`.
    """
    template = revision.parts[role].template
    about = template.get("metadata") or {}
    own = {**(about.get("labels") or {}), REVISION_LABEL: revision.name}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": metadata(
            resolved,
            name,
            {**_labels(resolved, role), REVISION_LABEL: revision.name},
            {BESIDE_ANNOTATION: revision.beside} if revision.beside else None,
        ),
        "spec": {
            "replicas": replicas,
            "serviceName": role_name(resolved.name, role),
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"type": "RollingUpdate"},
            "selector": {"matchLabels": selector(resolved.name, role)},
            "template": {**template, "metadata": {**about, "labels": own}},
        },
    }


def _config_name(resolved: Resolved, role: Role, launch: Mapping[str, str]) -> str:
    return f"{role_name(resolved.name, role)}-{hash_of(dict(launch))}"


def _labels(resolved: Resolved, role: Role) -> dict[str, str]:
    return labels(resolved.name, role, ENGINE_APPLICATION)


def _template(resolved: Resolved, pool: Pool, launch: Mapping[str, str]) -> dict[str, Any]:
    return {
        "metadata": {
            "labels": {
                **_labels(resolved, pool.role),
                ENGINE_LABEL: resolved.name,
                TENSOR_LABEL: str(pool.tensor),
                **({KIN_LABEL: kin} if (kin := kin_of(resolved, pool)) else {}),
                **({DATA_LABEL: str(pool.data)} if pool.data > 1 else {}),
            },
            "annotations": {CONFIG_HASH_ANNOTATION: hash_of(dict(launch))},
        },
        "spec": {
            # Neither Kubernetes' API nor the variables of Services are an engine's business: a Service named `vllm`
            # would set VLLM_PORT.
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": pool.ending.grace,
            **accelerate.placement(resolved, pool.role),
            **(
                {"imagePullSecrets": [{"name": name} for name in resolved.pull_secrets]}
                if resolved.pull_secrets
                else {}
            ),
            **({"resourceClaims": [dict(claim) for claim in pool.devices.claims]} if pool.devices.claims else {}),
            "initContainers": [_connector(resolved)],
            "containers": [_engine(resolved, pool)],
            "volumes": _volumes(resolved, pool, launch),
        },
    }


def _connector(resolved: Resolved) -> dict[str, Any]:
    """Copies the connector's package to where the engine's Python finds it, so that a stock vLLM image will do.

    The image's entry point takes the target folder.
    """
    return {
        "name": CONNECTOR_CONTAINER,
        "image": resolved.connector_image,
        "imagePullPolicy": "IfNotPresent",
        "args": [contract.CONNECTOR_PATH],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [{"name": "connector", "mountPath": contract.CONNECTOR_PATH}],
    }


def _engine(resolved: Resolved, pool: Pool) -> dict[str, Any]:
    resources = accelerate.resources(pool)
    return {
        "name": ENGINE_CONTAINER,
        "image": resolved.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", f"{LAUNCH_DIRECTORY}/{LAUNCH_SCRIPT}"],
        "env": engine_environment(resolved, pool),
        "ports": [
            {"name": "http", "containerPort": contract.HTTP_PORT, "protocol": "TCP"},
            *_side_channels(resolved, pool),
        ],
        **({"resources": resources} if resources else {}),
        "securityContext": accelerate.security_context(pool),
        **_probes(),
        "lifecycle": {"preStop": _before_it_ends(pool)},
        "volumeMounts": _mounts(resolved),
    }


def _side_channels(resolved: Resolved, pool: Pool) -> list[dict[str, Any]]:
    """One for each data-parallel rank."""
    first = resolved.side_channel_port
    names = (f"{SIDE_CHANNEL_PORT_NAME}-{rank}" if rank else SIDE_CHANNEL_PORT_NAME for rank in range(pool.data))
    return [{"name": name, "containerPort": port, "protocol": "TCP"} for port, name in enumerate(names, first)]


def engine_environment(resolved: Resolved, pool: Pool) -> list[dict[str, Any]]:
    """The engine's variables: what Tandem's parts read, then NIXL's and libfabric's, then the user's, which win."""
    pod_ip = {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}
    pod_uid = {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.uid"}}
    own: list[dict[str, Any]] = [
        {"name": contract.POD_UID, "valueFrom": pod_uid},
        {"name": contract.ROLE, "value": str(pool.role)},
        {"name": contract.PEERS_FILE, "value": contract.PEERS_PATH},
        {"name": contract.STATUS_FILE, "value": contract.STATUS_PATH},
        *([{"name": contract.DATA_PARALLEL, "value": str(pool.data)}] if pool.data > 1 else []),
        *key_variables(resolved),
        # NIXL's listener, or the exchange's, binds to this address.
        {"name": "VLLM_NIXL_SIDE_CHANNEL_HOST", "valueFrom": pod_ip},
        {"name": "VLLM_NIXL_SIDE_CHANNEL_PORT", "value": str(resolved.side_channel_port)},
        # Hashes of blocks are seeded with it: they must be equal in all engines.
        {"name": "PYTHONHASHSEED", "value": "0"},
        # vllm-router reuses a connection that was idle for up to two seconds by its own clock. With vLLM's five seconds a router
        # that has to wait for a core may send on one that the engine has just closed; with `NixlPull`, where nothing is tried
        # again, that is the client's error 500.
        {"name": "VLLM_HTTP_TIMEOUT_KEEP_ALIVE", "value": str(_KEEP_ALIVE_SECONDS)},
        *accelerate.environment(pool),
        *_hub_token(resolved),
    ]
    named = {variable["name"]: variable for variable in (*own, *pool.environment)}
    return [dict(variable) for variable in named.values()]


def _hub_token(resolved: Resolved) -> list[dict[str, Any]]:
    token = resolved.model.token
    if token is None:
        return []
    return [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": token.name, "key": token.key}}}]


def _probes() -> dict[str, Any]:
    """When the engine counts as started, ready, and beyond help.

    vLLM opens NIXL's handshake listener before it answers over HTTP, so HTTP alone tells that it has started. Later that isn't
    enough: the listener is a thread that a malformed message ends for good (vLLM 0.32, `_nixl_handshake_listener`),
    while `/health` stays well. The exchange's listener ends only with the engine; it is asked the same way, and takes a
    connection that says nothing without a word. A container has one readiness probe, hence one program for both doors. It
    costs a start of Python without `site`: some 20 ms of CPU every 5 seconds. Only a new process brings a listener back, so
    liveness asks the same, with much patience: a restart costs the weights and all KV.

    Where a pod has data-parallel ranks, each has a listener and says how it is, and the pod is ready when all are.

    An engine with too many blocks in quarantine isn't ready: the front door and its peers leave it alone until the engines that it
    waits for are gone. Most often these end first, so liveness puts up with that for half an hour (`probe.py`).
    """
    ready, alive = ({"exec": {"command": [*_PROBE, *more]}} for more in ((), ("--to-live",)))
    return {
        "startupProbe": {
            "httpGet": {"path": "/health", "port": "http", "scheme": "HTTP"},
            "periodSeconds": _START_PERIOD_SECONDS,
            "timeoutSeconds": 5,
            "failureThreshold": START_LIMIT_SECONDS // _START_PERIOD_SECONDS,
        },
        "readinessProbe": {**ready, "periodSeconds": 5, "timeoutSeconds": 10, "failureThreshold": 3},
        "livenessProbe": {**alive, "periodSeconds": 30, "timeoutSeconds": 20, "failureThreshold": 10},
    }


def _before_it_ends(pool: Pool) -> dict[str, Any]:
    """What is waited for between the deletion of a pod and SIGTERM: that nobody sends it requests, and what it has to hand over."""
    drain = pool.ending.drain
    if drain is None:
        return {"sleep": {"seconds": _UNKNOWN_AFTER_SECONDS}}
    limits = {"--within": drain, "--at-least": _UNKNOWN_AFTER_SECONDS, "--told-within": _TOLD_WITHIN_SECONDS}
    return {"exec": {"command": [*_DRAIN, *(f"{option}={seconds}" for option, seconds in limits.items())]}}


def _mounts(resolved: Resolved) -> list[dict[str, Any]]:
    volume = resolved.model.volume
    sub_path = {"subPath": volume.sub_path} if volume and volume.sub_path else {}
    return [
        {"name": "connector", "mountPath": contract.CONNECTOR_PATH, "readOnly": True},
        {"name": "launch", "mountPath": LAUNCH_DIRECTORY, "readOnly": True},
        {"name": "peers", "mountPath": contract.PEERS_DIRECTORY, "readOnly": True},
        *key_mounts(resolved),
        {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108 - a mount point
        *([{"name": "model", "mountPath": MODELS_PATH, "readOnly": True, **sub_path}] if volume else []),
    ]


def _volumes(resolved: Resolved, pool: Pool, launch: Mapping[str, str]) -> list[dict[str, Any]]:
    peers = {
        "path": contract.PEERS_PATH.removeprefix(f"{contract.PEERS_DIRECTORY}/"),
        "fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.annotations['{PEERS_ANNOTATION}']"},
    }
    return [
        {"name": "connector", "emptyDir": {}},
        {"name": "launch", "configMap": {"name": _config_name(resolved, pool.role, launch)}},
        {"name": "peers", "downwardAPI": {"items": [peers]}},
        *key_volumes(resolved),
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": pool.devices.shared_memory}},
        *_model_volume(resolved),
    ]


def _model_volume(resolved: Resolved) -> list[dict[str, Any]]:
    volume = resolved.model.volume
    if volume is None:
        return []
    if volume.claim_name:
        return [{"name": "model", "persistentVolumeClaim": {"claimName": volume.claim_name, "readOnly": True}}]
    return [{"name": "model", "hostPath": {"path": volume.host_path, "type": "Directory"}}]
