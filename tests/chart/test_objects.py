# SPDX-License-Identifier: Apache-2.0
"""What the chart makes."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tandem_operator.api.crd import DEFINITIONS, Definition
from tests.chart.rendering import CHART, HelmError, Manifest, environment, kinds, one, operator_container, render

GOLDEN = Path(__file__).parent / "default.yaml"

EVERYTHING: dict[str, Any] = {
    "watch": {"namespaces": ["team-a", "team-b"]},
    "networkPolicy": {"enabled": True, "metricsFrom": [{"namespaceSelector": {"matchLabels": {"monitoring": "true"}}}]},
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "imagePullSecrets": [{"name": "registry"}],
    "extraEnv": [{"name": "PYTHONASYNCIODEBUG", "value": "1"}],
    "serviceAccount": {"annotations": {"team": "inference"}},
    "podAnnotations": {"note": "a"},
    "podLabels": {"team": "inference"},
    "priorityClassName": "system-cluster-critical",
    "nodeSelector": {"kubernetes.io/arch": "amd64"},
    "tolerations": [{"key": "dedicated", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"}
    ],
}


@pytest.fixture(scope="module")
def schemas_read_once() -> Iterator[None]:
    """The library parses 3 MB of JSON for every object."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kubernetes_validate.utils, "schema_contents", cache(kubernetes_validate.utils.schema_contents))
        yield


@pytest.mark.usefixtures("schemas_read_once")
@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["default", "everything"])
@pytest.mark.parametrize("version", ["1.34", "1.37"])
def test_every_object_fits_the_schema_of_kubernetes(values: dict[str, Any], version: str) -> None:
    for each in render(values):
        if each["kind"] not in {"CustomResourceDefinition", "ServiceMonitor"}:
            kubernetes_validate.validate(each, version, strict=True)


def test_the_default_objects_are_the_golden_ones() -> None:
    rendered = [each for each in render() if each["kind"] != "CustomResourceDefinition"]

    assert rendered == list(yaml.safe_load_all(GOLDEN.read_text())), (
        f"if the change is wanted: helm template tandem charts/tandem -n tandem-system --set crds.enabled=false > {GOLDEN.name}"
    )


def test_two_pods_of_the_operator_run_on_different_nodes_if_they_can() -> None:
    deployment = one(render(), "Deployment")

    assert deployment["spec"]["replicas"] == 2
    [term] = deployment["spec"]["template"]["spec"]["affinity"]["podAntiAffinity"][
        "preferredDuringSchedulingIgnoredDuringExecution"
    ]
    assert term["podAffinityTerm"]["topologyKey"] == "kubernetes.io/hostname"
    assert term["podAffinityTerm"]["labelSelector"] == deployment["spec"]["selector"]


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


def test_the_operators_pod_fits_the_restricted_pod_security_standard() -> None:
    assert violations_of_restricted(one(render(), "Deployment")["spec"]["template"]["spec"]) == []


def test_a_pod_that_is_not_restricted_is_noticed() -> None:
    pod = {"hostNetwork": True, "volumes": [{"name": "host", "hostPath": {}}], "containers": [{"securityContext": {}}]}

    assert violations_of_restricted(pod) == [
        *("hostNetwork", "host", "runAsNonRoot", "allowPrivilegeEscalation", "seccompProfile", "capabilities.drop")
    ]


def test_probes_ask_for_what_the_operator_serves() -> None:
    container = operator_container(render())

    assert container["ports"] == [{"name": "http", "containerPort": 8080, "protocol": "TCP"}]
    assert container["startupProbe"]["httpGet"] == {"path": "/healthz", "port": "http"}
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "http"}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "http"}


each_definition = pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: definition.kind)


@each_definition
def test_a_definition_is_the_generated_one_and_outlives_the_release(definition: Definition) -> None:
    crd = one(render(), "CustomResourceDefinition", definition.name)

    assert crd["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
    assert crd == definition.manifest()


@each_definition
def test_a_definition_goes_with_the_release_when_told_so(definition: Definition) -> None:
    crd = one(render({"crds": {"keep": False}}), "CustomResourceDefinition", definition.name)

    assert "annotations" not in crd["metadata"]


def test_without_definitions_there_are_none() -> None:
    assert "CustomResourceDefinition" not in kinds(render({"crds": {"enabled": False}}))


def test_a_digest_wins_over_a_tag() -> None:
    digest = "sha256:" + "a" * 64
    images = {
        "image": {"repository": "r.example/operator", "tag": "1.2", "digest": digest},
        "frontDoorImage": {"repository": "r.example/front-door", "tag": "1.3"},
        "connectorImage": {"digest": digest},
    }

    objects = render(images)

    assert operator_container(objects)["image"] == f"r.example/operator@{digest}"
    assert environment(objects)["TANDEM_FRONT_DOOR_IMAGE"] == "r.example/front-door:1.3"
    assert environment(objects)["TANDEM_CONNECTOR_IMAGE"] == f"tandem.dev/connector-init@{digest}"


def test_a_single_pod_is_not_pinned_to_its_node() -> None:
    assert "PodDisruptionBudget" in kinds(render())
    assert "PodDisruptionBudget" not in kinds(render({"replicas": 1}))
    assert "PodDisruptionBudget" not in kinds(render({"podDisruptionBudget": {"enabled": False}}))


def test_what_needs_other_definitions_or_a_decision_is_off_by_default() -> None:
    assert kinds(render()).isdisjoint({"NetworkPolicy", "ServiceMonitor"})
    assert kinds(render(EVERYTHING)) >= {"NetworkPolicy", "ServiceMonitor"}


def test_the_monitor_finds_the_metrics_service() -> None:
    objects = render({"serviceMonitor": {"enabled": True}})
    service, monitor = one(objects, "Service", "tandem-metrics"), one(objects, "ServiceMonitor")

    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert [endpoint["port"] for endpoint in monitor["spec"]["endpoints"]] == [
        port["name"] for port in service["spec"]["ports"]
    ]
    assert service["spec"]["selector"] == one(objects, "Deployment")["spec"]["selector"]["matchLabels"]


def test_names_stay_within_their_bounds() -> None:
    objects = render({"fullnameOverride": "a" * 63})

    assert (
        max(len(each["metadata"]["name"]) for each in objects if each["kind"] != "CustomResourceDefinition") <= 63 + 9
    )
    assert one(objects, "Deployment", "a" * 52)


def test_another_release_has_other_names() -> None:
    assert one(render(release="blue"), "Deployment", "blue-tandem")


def test_an_older_kubernetes_is_refused() -> None:
    with pytest.raises(HelmError, match=r"requires kubeVersion: >=1\.34\.0-0"):
        render(kubernetes="1.33.9")


def test_rendering_needs_no_cluster_no_chance_and_no_hook() -> None:
    texts = [path.read_text() for path in (CHART / "templates").iterdir()]
    actions = " ".join(action for text in texts for action in re.findall(r"{{(.*?)}}", text, re.DOTALL))

    assert {"include", "nindent", "toYaml"} <= set(re.findall(r"\w+", actions))
    assert not {"lookup", "randAlphaNum", "genSelfSignedCert", "genCA", "genPrivateKey", "uuidv4", "now"} & set(
        re.findall(r"\w+", actions)
    )
    assert not any("helm.sh/hook" in text for text in texts)
