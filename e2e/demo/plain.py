# SPDX-License-Identifier: Apache-2.0
"""A plain vLLM engine in a pod of its own: what the resource's engines would be without Tandem."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from e2e.account import EngineAccount, PoolsAccount
from e2e.cluster.interface import Cluster
from e2e.installation import ENGINE_PORT
from e2e.kubectl import Kubectl, Manifest
from e2e.ready import NotReadyError

NAME: Final = "plain"
_MODEL: Final = "/models"
_LAUNCH: Final = """\
case $POD_IP in
*:*) host=:: ;;
*) host=0.0.0.0 ;;
esac
exec python3 -m vllm.entrypoints.openai.api_server --host="$host" "$@"
"""
"""All addresses of the pod's own family; only its IP would shut out `kubectl port-forward`."""


def plain_pod(resource: Mapping[str, Any]) -> dict[str, Any]:
    """One engine with the image, the arguments, the variables and the volumes of the resource's decode engines.

    Args:
        resource: as `e2e.sample.cpu_resource` makes it, with its model on a host path.
    """
    spec = resource["spec"]
    engine, decode = spec["engine"], spec["decode"]
    (overlay,) = decode.get("podTemplate", {}).get("spec", {}).get("containers", [{}])
    arguments = (
        f"--model={_MODEL}",
        f"--served-model-name={spec['model']['name']}",
        f"--port={ENGINE_PORT}",
        f"--block-size={engine['blockSize']}",
        *engine["args"],
    )
    container = {
        "name": "engine",
        "image": engine["image"],
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", _LAUNCH, "sh", *arguments],
        "env": [
            {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            *engine["env"],
            *decode.get("env", []),
        ],
        "readinessProbe": {"httpGet": {"path": "/health", "port": ENGINE_PORT}, "periodSeconds": 2},
        "resources": decode["resources"],
        "volumeMounts": [
            {"name": "model", "mountPath": _MODEL, "readOnly": True},
            {"name": "shm", "mountPath": "/dev/shm"},
            *overlay.get("volumeMounts", []),
        ],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": NAME},
        "spec": {
            "automountServiceAccountToken": False,
            # A Service called `vllm` would set VLLM_PORT, which vLLM takes for its own.
            "enableServiceLinks": False,
            "restartPolicy": "Never",
            "containers": [container],
            "volumes": [
                {
                    "name": "model",
                    "hostPath": {"path": spec["model"]["source"]["volume"]["hostPath"], "type": "Directory"},
                },
                # vLLM's processes speak through shared memory, of which a container has 64 MiB by default: too little.
                {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
                *decode.get("podTemplate", {}).get("spec", {}).get("volumes", []),
            ],
        },
    }


def is_ready(pod: Manifest) -> bool:
    """Whether it answers.

    Raises:
        NotReadyError: it has ended.
    """
    status = pod.get("status", {})
    if status.get("phase") == "Failed":
        raise NotReadyError(f"the engine in pod {NAME} has ended; its log tells why: kubectl logs {NAME}")
    return any(each["type"] == "Ready" and each["status"] == "True" for each in status.get("conditions", []))


def remove(kubectl: Kubectl) -> None:
    """End it; nothing where there is none."""
    kubectl.delete("pod", NAME, "--wait=true")


def plain_account(kubectl: Kubectl) -> PoolsAccount:
    """What it computed since it started; as decode's, for there is no prefill."""
    text = kubectl.pod_http(NAME, ENGINE_PORT, "/metrics")
    return PoolsAccount(prefill=EngineAccount(), decode=EngineAccount.parse(text))


@contextmanager
def plain_url(cluster: Cluster, kubectl: Kubectl) -> Iterator[str]:
    """URL under which this machine reaches it, while it lasts. It must be ready."""
    if cluster.facts().is_local:
        address = (kubectl.get("pod", NAME) or {})["status"]["podIP"]
        yield f"http://[{address}]:{ENGINE_PORT}" if ":" in address else f"http://{address}:{ENGINE_PORT}"
    else:
        with kubectl.forwarded(f"pod/{NAME}", ENGINE_PORT) as url:
            yield url
