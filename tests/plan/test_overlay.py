# SPDX-License-Identifier: Apache-2.0
"""A user's pod template over a generated one."""

from copy import deepcopy
from typing import Any

import pytest

from tandem_operator.plan.errors import InvalidSpec
from tandem_operator.plan.overlay import overlaid
from tests.plan.made import named

TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"tandem.dev/role": "decode", "app.kubernetes.io/name": "vllm"}},
    "spec": {
        "terminationGracePeriodSeconds": 90,
        "nodeSelector": {"type": "p5en"},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        "containers": [
            {
                "name": "engine",
                "command": ["sh", "launch.sh"],
                "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                "ports": [{"containerPort": 8000, "name": "http"}],
                "resources": {"requests": {"cpu": "4"}},
                "volumeMounts": [{"mountPath": "/dev/shm", "name": "shm"}],
            }
        ],
        "volumes": [
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
            {"name": "launch", "configMap": {"name": "x"}},
        ],
    },
}


def merged(overlay: dict[str, Any]) -> dict[str, Any]:
    before = deepcopy((TEMPLATE, overlay))
    result = overlaid(TEMPLATE, overlay, field="spec.decode.podTemplate", needs="engine")
    assert (TEMPLATE, overlay) == before, "neither side is changed"
    return result


def spec(overlay: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = merged({"spec": overlay})["spec"]
    return found


def engine(overlay: dict[str, Any]) -> dict[str, Any]:
    return named(spec({"containers": [{"name": "engine", **overlay}]})["containers"], "engine")


def test_without_an_overlay_nothing_changes() -> None:
    assert merged({}) == TEMPLATE


def test_labels_and_annotations_are_added() -> None:
    metadata = merged({"metadata": {"labels": {"team": "chat"}, "annotations": {"a": "b"}}})["metadata"]
    assert metadata["labels"] == {**TEMPLATE["metadata"]["labels"], "team": "chat"}
    assert metadata["annotations"] == {"a": "b"}


def test_a_label_may_have_the_name_of_a_field() -> None:
    assert merged({"metadata": {"labels": {"env": "prod"}}})["metadata"]["labels"]["env"] == "prod"
    assert spec({"nodeSelector": {"env": "prod"}})["nodeSelector"]["env"] == "prod"


def test_maps_are_merged_and_null_removes_a_key() -> None:
    assert spec({"nodeSelector": {"pool": "a"}})["nodeSelector"] == {"type": "p5en", "pool": "a"}
    assert spec({"nodeSelector": {"type": None}})["nodeSelector"] == {}
    assert "nodeSelector" not in spec({"nodeSelector": None})


def test_single_values_are_replaced() -> None:
    assert spec({"terminationGracePeriodSeconds": 600})["terminationGracePeriodSeconds"] == 600


def test_a_container_is_found_by_its_name_and_a_new_one_is_a_sidecar() -> None:
    containers = spec({"containers": [{"name": "log", "image": "x"}, {"name": "engine", "tty": True}]})["containers"]
    assert containers == [{"name": "log", "image": "x"}, {**TEMPLATE["spec"]["containers"][0], "tty": True}]


def test_init_containers_can_be_added_where_there_were_none() -> None:
    assert spec({"initContainers": [{"name": "fetch"}]})["initContainers"] == [{"name": "fetch"}]


def test_variables_are_merged_by_name_and_those_of_the_overlay_keep_their_order() -> None:
    assert engine({"env": [{"name": "C", "value": "3"}, {"name": "A", "value": "9"}]})["env"] == [
        {"name": "C", "value": "3"},
        {"name": "A", "value": "9"},
        {"name": "B", "value": "2"},
    ]


def test_a_variable_from_a_secret_replaces_one_with_a_value_that_is_removed() -> None:
    source = {"secretKeyRef": {"name": "s", "key": "k"}}
    assert engine({"env": [{"name": "A", "value": None, "valueFrom": source}]})["env"][0] == {
        "name": "A",
        "valueFrom": source,
    }


def test_mounts_are_merged_by_path_and_ports_by_number() -> None:
    assert engine({"volumeMounts": [{"mountPath": "/dev/shm", "readOnly": True}]})["volumeMounts"] == [
        {"mountPath": "/dev/shm", "name": "shm", "readOnly": True}
    ]
    ports = engine({"ports": [{"containerPort": 8000, "hostPort": 80}, {"containerPort": 9}]})["ports"]
    assert ports == [{"containerPort": 8000, "name": "http", "hostPort": 80}, {"containerPort": 9}]


def test_resources_are_merged() -> None:
    assert engine({"resources": {"limits": {"memory": "1Gi"}}})["resources"] == {
        "requests": {"cpu": "4"},
        "limits": {"memory": "1Gi"},
    }


def test_a_volume_of_the_same_source_is_merged_and_another_source_takes_its_place() -> None:
    bigger = spec({"volumes": [{"name": "shm", "emptyDir": {"sizeLimit": "80Gi"}}]})["volumes"]
    assert bigger[0] == {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "80Gi"}}
    path = {"path": "/dev/shm"}
    for way in ({"emptyDir": None}, {"$retainKeys": ["name", "hostPath"]}):
        other = spec({"volumes": [{"name": "shm", "hostPath": path, **way}]})["volumes"]
        assert other == [{"name": "shm", "hostPath": path}, TEMPLATE["spec"]["volumes"][1]]


@pytest.mark.parametrize(
    ("overlay", "field"),
    [
        ({"volumes": [{"name": "shm", "hostPath": {}}]}, "volumes[shm]"),
        ({"containers": [{"name": "engine", "env": [{"name": "A", "valueFrom": {}}]}]}, "containers[engine].env[A]"),
        (
            {"containers": [{"name": "engine", "readinessProbe": {"exec": {}, "httpGet": {}}}]},
            "containers[engine].readinessProbe",
        ),
        (
            {"initContainers": [{"name": "a", "lifecycle": {"preStop": {"exec": {}, "sleep": {}}}}]},
            "initContainers[a].lifecycle.preStop",
        ),
    ],
)
def test_two_of_what_only_one_can_be_are_refused_with_the_remedy(overlay: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidSpec, match="of which only one can be; set the other to null") as error:
        spec(overlay)
    assert error.value.field == f"spec.decode.podTemplate.spec.{field}"


def test_what_no_pod_has_is_left_to_the_api_server() -> None:
    strange = {"name": "a", "lifecycle": "x", "readinessProbe": ["exec"], "stdin": {"a": 1}}
    assert strange in spec({"initContainers": [strange]})["initContainers"]


def test_tolerations_are_replaced() -> None:
    spot = {"key": "spot", "operator": "Exists"}
    assert spec({"tolerations": [spot]})["tolerations"] == [spot]


def test_lists_without_an_identity_are_replaced() -> None:
    assert engine({"command": ["sleep", "1"]})["command"] == ["sleep", "1"]


def test_an_element_or_a_map_can_be_deleted_and_a_map_replaced() -> None:
    assert engine({"env": [{"name": "A", "$patch": "delete"}]})["env"] == [{"name": "B", "value": "2"}]
    assert engine({"env": [{"name": "unknown", "$patch": "delete"}]}) == TEMPLATE["spec"]["containers"][0]
    assert spec({"nodeSelector": {"$patch": "delete"}})["nodeSelector"] == {}
    assert spec({"nodeSelector": {"$patch": "replace", "pool": "a"}})["nodeSelector"] == {"pool": "a"}


@pytest.mark.parametrize(
    ("overlay", "field"),
    [
        ({"containers": []}, ".containers"),
        ({"metadata": []}, ".metadata"),
        ({"metadata": {"name": "x"}}, ".metadata.name"),
        ({"metadata": {"labels": ["x"]}}, ".metadata.labels"),
        ({"metadata": {"labels": {"tandem.dev/routable": "true"}}}, ".metadata.labels[tandem.dev/routable]"),
        ({"metadata": {"labels": {"app.kubernetes.io/name": "x"}}}, ".metadata.labels[app.kubernetes.io/name]"),
        ({"metadata": {"labels": {"$patch": "replace"}}}, ".metadata.labels[$patch]"),
        ({"metadata": {"annotations": {"tandem.dev/peers": "{}"}}}, ".metadata.annotations[tandem.dev/peers]"),
        ({"metadata": {"annotations": {"a": 1}}}, ".metadata.annotations[a]"),
        ({"spec": "x"}, ".spec"),
        ({"spec": {"containers": {"engine": {}}}}, ".spec.containers"),
        ({"spec": {"containers": ["engine"]}}, ".spec.containers[0]"),
        ({"spec": {"containers": [{"image": "x"}]}}, ".spec.containers[0].name"),
        ({"spec": {"containers": [{"name": "engine", "env": {"A": "1"}}]}}, ".spec.containers[engine].env"),
        ({"spec": {"containers": [{"name": "engine", "resources": []}]}}, ".spec.containers[engine].resources"),
        ({"spec": {"containers": [{"name": "engine", "command": "sh"}]}}, ".spec.containers[engine].command"),
        ({"spec": {"initContainers": {"name": "x"}}}, ".spec.initContainers"),
        ({"spec": {"nodeSelector": "x"}}, ".spec.nodeSelector"),
        ({"spec": {"terminationGracePeriodSeconds": {"x": 1}}}, ".spec.terminationGracePeriodSeconds"),
        ({"spec": {"tolerations": "all"}}, ".spec.tolerations"),
        ({"spec": {"nodeSelector": {"$patch": "merge"}}}, ".spec.nodeSelector.$patch"),
        ({"spec": {"$retainKeys": ["x"]}}, ".spec.containers"),
        ({"spec": {"$retainKeys": ["x"], "hostIPC": True}}, ".spec.$retainKeys"),
        ({"spec": {"$retain": ["x"]}}, ".spec.$retain"),
        ({"spec": {"affinity": {"$patch": "replace"}}}, ".spec.affinity.$patch"),
        ({"spec": {"$setElementOrder/containers": [{"image": "x"}]}}, ".spec.$setElementOrder/containers"),
        ({"spec": {"$setElementOrder/tolerations": [{"key": "x"}]}}, ".spec.$setElementOrder/tolerations"),
        ({"spec": {"$deleteFromPrimitiveList/volumes": ["shm"]}}, ".spec.$deleteFromPrimitiveList/volumes"),
        (
            {"spec": {"containers": [{"name": "engine", "command": ["a"], "$deleteFromPrimitiveList/command": ["b"]}]}},
            ".spec.containers[engine].$deleteFromPrimitiveList/command",
        ),
        ({"spec": {"containers": [{"name": "engine", "$patch": "delete"}]}}, ".spec.containers"),
        ({"spec": {"$patch": "replace"}}, ".spec.containers"),
    ],
)
def test_a_wrong_shape_is_refused_with_its_path(overlay: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidSpec) as error:
        merged(overlay)
    assert error.value.field == f"spec.decode.podTemplate{field}"
    assert error.value.remedy
