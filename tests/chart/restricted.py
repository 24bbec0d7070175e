# SPDX-License-Identifier: Apache-2.0
"""The Pod Security Standard `restricted`."""

from tests.chart.rendering import Manifest


def violations_of_restricted(pod: Manifest) -> list[str]:
    """What of a pod's spec the Pod Security Standard `restricted` forbids (version 1.34)."""
    found = [name for name in ("hostNetwork", "hostPID", "hostIPC") if pod.get(name)]
    allowed_volumes = {
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "persistentVolumeClaim",
        "projected",
        "secret",
    }
    found += [volume["name"] for volume in pod.get("volumes", ()) if not set(volume) & allowed_volumes]
    for container in (*pod.get("initContainers", ()), *pod["containers"]):
        context = {**pod.get("securityContext", {}), **container.get("securityContext", {})}
        found += [f"hostPort {port['hostPort']}" for port in container.get("ports", ()) if port.get("hostPort")]
        checks = {
            "runAsNonRoot": context.get("runAsNonRoot") is True,
            "runAsUser": context.get("runAsUser") != 0,
            "allowPrivilegeEscalation": context.get("allowPrivilegeEscalation") is False,
            "privileged": not context.get("privileged"),
            "seccompProfile": context.get("seccompProfile", {}).get("type") in {"RuntimeDefault", "Localhost"},
            "capabilities.drop": "ALL" in context.get("capabilities", {}).get("drop", ()),
            "capabilities.add": set(context.get("capabilities", {}).get("add", ())) <= {"NET_BIND_SERVICE"},
        }
        found += [check for check, holds in checks.items() if not holds]
    return found
