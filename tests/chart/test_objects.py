# SPDX-License-Identifier: Apache-2.0
"""What the chart makes."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tandem_operator.api.crd import DEFINITIONS, Definition
from tests.chart.conformance import faults
from tests.chart.rendering import CHART, HelmError, environment, kinds, one, operator_container, render
from tests.chart.restricted import violations_of_restricted

GOLDEN = Path(__file__).parent / "default.yaml"

EVERYTHING: dict[str, Any] = {
    "watch": {"namespaces": ["team-a", "team-b"]},
    "networkPolicy": {"enabled": True, "metricsFrom": [{"namespaceSelector": {"matchLabels": {"monitoring": "true"}}}]},
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "podMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
    "dashboards": {"enabled": True},
    "imagePullSecrets": [{"name": "registry"}],
    "extraArgs": ["--resync=300"],
    "extraEnv": [{"name": "PYTHONASYNCIODEBUG", "value": "1"}],
    "extraVolumes": [{"name": "ca", "configMap": {"name": "ca"}}],
    "extraVolumeMounts": [{"name": "ca", "mountPath": "/etc/ssl/own"}],
    "extraObjects": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "{{ .Release.Name }}-more"}}],
    "commonLabels": {"cost-center": "inference"},
    "deploymentAnnotations": {"note": "a"},
    "serviceAccount": {"annotations": {"team": "inference"}},
    "podAnnotations": {"note": "a"},
    "podLabels": {"team": "inference"},
    "priorityClassName": "system-cluster-critical",
    "priorityClass": {"create": True},
    "enginePriorityClass": {"create": True},
    "nodeSelector": {"kubernetes.io/arch": "amd64"},
    "tolerations": [{"key": "dedicated", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"}
    ],
}


@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["default", "everything"])
@pytest.mark.parametrize("version", ["1.34", "1.37"])
def test_every_object_fits_the_schema_of_kubernetes(values: dict[str, Any], version: str) -> None:
    assert [fault for each in render(values) for fault in faults(each, version)] == []


def test_a_field_that_kubernetes_does_not_know_is_noticed() -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": {"port": 1}}

    assert faults(service, "1.34") == ["$.spec: Additional properties are not allowed ('port' was unexpected)"]


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


def test_the_operators_pod_fits_the_restricted_pod_security_standard() -> None:
    assert violations_of_restricted(one(render(), "Deployment")["spec"]["template"]["spec"]) == []


def test_the_pod_of_helm_test_does_too() -> None:
    assert violations_of_restricted(one(render(), "Pod", "tandem-test")["spec"]) == []


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


def test_the_operators_pods_have_the_priority_class_that_is_made_for_them_unless_another_is_named() -> None:
    made = render({"priorityClass": {"create": True, "value": 1_000_000}})
    other = render({"priorityClass": {"create": True, "name": "mine"}, "priorityClassName": "high"})

    assert one(made, "PriorityClass")["value"] == 1_000_000
    assert one(made, "Deployment")["spec"]["template"]["spec"]["priorityClassName"] == "tandem"
    assert one(other, "PriorityClass", "mine")
    assert one(other, "Deployment")["spec"]["template"]["spec"]["priorityClassName"] == "high"


def test_a_priority_class_of_engines_outlives_the_release_and_is_not_the_operators() -> None:
    objects = render({"enginePriorityClass": {"create": True, "annotations": {"a": "b"}}})
    for_a_while = render({"enginePriorityClass": {"create": True, "keep": False}})

    made = one(objects, "PriorityClass", "tandem-engines")
    assert made["metadata"]["annotations"] == {"a": "b", "helm.sh/resource-policy": "keep"}
    assert "annotations" not in one(for_a_while, "PriorityClass", "tandem-engines")["metadata"]
    assert "priorityClassName" not in one(objects, "Deployment")["spec"]["template"]["spec"]


def test_two_priority_classes_of_one_name_are_refused() -> None:
    with pytest.raises(HelmError, match='are both "mine": give one of them another name'):
        render(
            {"priorityClass": {"create": True, "name": "mine"}, "enginePriorityClass": {"create": True, "name": "mine"}}
        )


def test_a_single_pod_is_not_pinned_to_its_node() -> None:
    assert "PodDisruptionBudget" in kinds(render())
    assert "PodDisruptionBudget" not in kinds(render({"replicas": 1}))
    assert "PodDisruptionBudget" not in kinds(render({"podDisruptionBudget": {"enabled": False}}))


def test_what_needs_other_definitions_or_a_decision_is_off_by_default() -> None:
    decided = {"NetworkPolicy", "PodMonitor", "ServiceMonitor", "PrometheusRule", "ConfigMap", "PriorityClass"}
    assert kinds(render()).isdisjoint(decided)
    assert kinds(render(EVERYTHING)) >= decided


def test_names_stay_within_their_bounds() -> None:
    objects = render({"fullnameOverride": "a" * 63})

    assert (
        max(len(each["metadata"]["name"]) for each in objects if each["kind"] != "CustomResourceDefinition") <= 63 + 9
    )
    assert one(objects, "Deployment", "a" * 52)


def test_names_that_yaml_takes_for_numbers_or_truths_are_still_names() -> None:
    named = {"fullnameOverride": "true", "nameOverride": "1", "priorityClassName": "7", "serviceAccount": {"name": "0"}}

    for release in ("12", "1e3"):
        objects = render({**named, "watch": {"namespaces": ["0", "null"]}}, release=release)
        assert [fault for each in objects for fault in faults(each, "1.37")] == []


def test_another_release_has_other_names() -> None:
    assert one(render(release="blue"), "Deployment", "blue-tandem")


def test_an_older_kubernetes_is_refused() -> None:
    with pytest.raises(HelmError, match=r"requires kubeVersion: >=1\.34\.0-0"):
        render(kubernetes="1.33.9")


def test_rendering_needs_no_cluster_and_no_chance() -> None:
    texts = [path.read_text() for path in (CHART / "templates").rglob("*.*")]
    actions = " ".join(action for text in texts for action in re.findall(r"{{(.*?)}}", text, re.DOTALL))

    assert {"include", "nindent", "toYaml"} <= set(re.findall(r"\w+", actions))
    assert not {"lookup", "randAlphaNum", "genSelfSignedCert", "genCA", "genPrivateKey", "uuidv4", "now"} & set(
        re.findall(r"\w+", actions)
    )


def test_the_only_hook_is_the_pod_of_helm_test() -> None:
    hooks = [each for each in render(EVERYTHING) if "helm.sh/hook" in each["metadata"].get("annotations", {})]

    assert [(each["kind"], each["metadata"]["annotations"]["helm.sh/hook"]) for each in hooks] == [("Pod", "test")]


def test_further_labels_are_on_all_objects_and_select_none() -> None:
    plain, labelled = render(), render({"commonLabels": {"cost-center": "inference"}})

    with_labels = [each for each in labelled if each["kind"] != "CustomResourceDefinition"]
    assert all(each["metadata"]["labels"]["cost-center"] == "inference" for each in with_labels)
    for kind, name in (("Deployment", "tandem"), ("Service", "tandem-metrics"), ("PodDisruptionBudget", "tandem")):
        assert one(labelled, kind, name)["spec"]["selector"] == one(plain, kind, name)["spec"]["selector"]


def test_labels_of_the_users_do_not_replace_those_by_which_pods_are_found() -> None:
    mine = {"app.kubernetes.io/name": "mine", "app.kubernetes.io/component": "mine"}
    deployment = one(render({"commonLabels": mine, "podLabels": mine}), "Deployment")

    selector = deployment["spec"]["selector"]["matchLabels"]
    assert selector.items() <= deployment["spec"]["template"]["metadata"]["labels"].items()
    assert "mine" not in selector.values()


def test_further_objects_are_rendered_as_templates() -> None:
    more = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "{{ .Release.Name }}-more"}}

    assert one(render({"extraObjects": [more]}, release="blue"), "ConfigMap", "blue-more")


def test_further_volumes_and_arguments_reach_the_operator() -> None:
    objects = render(EVERYTHING)

    assert operator_container(objects)["args"] == EVERYTHING["extraArgs"]
    assert operator_container(objects)["volumeMounts"] == EVERYTHING["extraVolumeMounts"]
    assert one(objects, "Deployment")["spec"]["template"]["spec"]["volumes"] == EVERYTHING["extraVolumes"]
