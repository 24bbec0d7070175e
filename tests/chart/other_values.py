# SPDX-License-Identifier: Apache-2.0
"""A value for each key of the chart, which is not its default."""

from typing import Any

OTHER_VALUES: dict[str, Any] = {
    "replicas": 3,
    "image.repository": "r.example/operator",
    "image.tag": "9.9.9",
    "image.digest": "sha256:" + "1" * 64,
    "image.pullPolicy": "Always",
    "imagePullSecrets": [{"name": "registry"}],
    "frontDoorImage.repository": "r.example/front-door",
    "frontDoorImage.tag": "9.9.9",
    "frontDoorImage.digest": "sha256:" + "2" * 64,
    "connectorImage.repository": "r.example/connector",
    "connectorImage.tag": "9.9.9",
    "connectorImage.digest": "sha256:" + "3" * 64,
    "crds.enabled": False,
    "crds.keep": False,
    "watch.namespaces": ["team-a"],
    "settings.workers": 8,
    "settings.conversations": 3,
    "settings.reconcileTimeout": 61,
    "settings.resync": 601,
    "settings.requestTimeout": 31,
    "settings.watchTimeout": 241,
    "settings.watchGrace": 121,
    "settings.leaseDuration": 16,
    "settings.leaseRenewDeadline": 11,
    "settings.leaseRetry": 2.5,
    "settings.logFormat": "text",
    "settings.logLevel": "debug",
    "extraArgs": ["--resync=99"],
    "extraEnv": [{"name": "A", "value": "b"}],
    "extraVolumes": [{"name": "ca", "configMap": {"name": "ca"}}],
    "extraVolumeMounts": [{"name": "ca", "mountPath": "/etc/ssl/own"}],
    "extraObjects": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "{{ .Release.Name }}-more"}}],
    "resources": {"limits": {"memory": "1Gi"}},
    "serviceAccount.create": False,
    "serviceAccount.name": "robot",
    "serviceAccount.annotations": {"a": "b"},
    "rbac.create": False,
    "rbac.aggregate": False,
    "podDisruptionBudget.enabled": False,
    "networkPolicy.enabled": True,
    "networkPolicy.metricsFrom": [{"podSelector": {}}],
    "serviceMonitor.enabled": True,
    "serviceMonitor.interval": "15s",
    "serviceMonitor.labels": {"a": "b"},
    "podMonitor.enabled": True,
    "podMonitor.interval": "5s",
    "podMonitor.labels": {"a": "b"},
    "prometheusRule.enabled": True,
    "prometheusRule.labels": {"a": "b"},
    "prometheusRule.disabled": ["TandemScalingLimited"],
    "prometheusRule.runbooks": "https://docs.example/alerts",
    "dashboards.enabled": True,
    "dashboards.labels": {"a": "b"},
    "dashboards.annotations": {"a": "b"},
    "test.enabled": False,
    "commonLabels": {"a": "b"},
    "deploymentAnnotations": {"a": "b"},
    "podAnnotations": {"a": "b"},
    "podLabels": {"a": "b"},
    "priorityClassName": "high",
    "priorityClass.create": True,
    "priorityClass.name": "high",
    "priorityClass.value": 7,
    "priorityClass.preemptionPolicy": "Never",
    "priorityClass.description": "High.",
    "priorityClass.annotations": {"a": "b"},
    "enginePriorityClass.create": True,
    "enginePriorityClass.name": "low",
    "enginePriorityClass.value": -7,
    "enginePriorityClass.preemptionPolicy": "Never",
    "enginePriorityClass.description": "Low.",
    "enginePriorityClass.annotations": {"a": "b"},
    "enginePriorityClass.keep": False,
    "nodeSelector": {"a": "b"},
    "tolerations": [{"operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
    "nameOverride": "other",
    "fullnameOverride": "other",
}
"""A valid value for each key that differs from its default."""

ONLY_WITH = {
    "dashboards.annotations": {"dashboards": {"enabled": True}},
    "dashboards.labels": {"dashboards": {"enabled": True}},
    **{
        f"enginePriorityClass.{each}": {"enginePriorityClass": {"create": True}}
        for each in ("name", "value", "preemptionPolicy", "description", "annotations", "keep")
    },
    "networkPolicy.metricsFrom": {"networkPolicy": {"enabled": True}},
    "podMonitor.interval": {"podMonitor": {"enabled": True}},
    "podMonitor.labels": {"podMonitor": {"enabled": True}},
    **{
        f"priorityClass.{each}": {"priorityClass": {"create": True}}
        for each in ("name", "value", "preemptionPolicy", "description", "annotations")
    },
    "prometheusRule.disabled": {"prometheusRule": {"enabled": True}},
    "prometheusRule.labels": {"prometheusRule": {"enabled": True}},
    "prometheusRule.runbooks": {"prometheusRule": {"enabled": True}},
    "serviceMonitor.interval": {"serviceMonitor": {"enabled": True}},
    "serviceMonitor.labels": {"serviceMonitor": {"enabled": True}},
}
"""Values without effect unless another one is set."""


def nested(path: str, value: Any) -> dict[str, Any]:
    """The value as Helm takes it: `a.b` in an object `a`."""
    for key in reversed(path.split(".")):
        value = {key: value}
    result: dict[str, Any] = value
    return result


def merged(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Both; of a key that both have with no object behind it, the first one's."""
    both = {key: merged(one[key], other[key]) for key in one.keys() & other.keys() if isinstance(other[key], dict)}
    return {**other, **one, **both}
