# SPDX-License-Identifier: Apache-2.0
"""The StatefulSets, their pods, and what makes pods follow a change."""

from typing import Any

from tandem_connector.contract.types import Role
from tandem_operator.api.names import DATA_LABEL, REVISION_LABEL
from tests.builders import a_resource
from tests.builders.resources import ResourceBuilder
from tests.plan.made import engine, environment, named, objects, pod_spec, template


def revision(resource: ResourceBuilder, role: Role) -> str:
    return str(template(resource, role)["metadata"]["labels"][REVISION_LABEL])


def without_revision(resource: ResourceBuilder, role: Role) -> dict[str, Any]:
    found = template(resource, role)
    labels = {name: value for name, value in found["metadata"]["labels"].items() if name != REVISION_LABEL}
    return {**found, "metadata": {**found["metadata"], "labels": labels}}


def test_each_role_has_a_set_of_its_replicas_and_a_headless_service_of_the_same_name() -> None:
    resource = a_resource("chat").with_prefill(2).with_decode(0)
    sets, services = objects(resource, "StatefulSet"), objects(resource, "Service")
    assert {name: each["spec"]["replicas"] for name, each in sets.items()} == {"chat-prefill": 2, "chat-decode": 0}
    for name, each in sets.items():
        assert each["spec"]["serviceName"] == name
        assert each["spec"]["podManagementPolicy"] == "Parallel"
        assert services[name]["spec"]["clusterIP"] == "None"
        assert services[name]["spec"]["publishNotReadyAddresses"] is True
        assert services[name]["spec"]["selector"] == each["spec"]["selector"]["matchLabels"]


def test_children_belong_to_the_resource_and_take_over_none_of_its_labels_or_annotations() -> None:
    manifest = a_resource().manifest()
    manifest["metadata"]["labels"] = {"argocd.argoproj.io/instance": "app"}
    manifest["metadata"]["annotations"] = {"argocd.argoproj.io/tracking-id": "app:x"}
    resource = ResourceBuilder(manifest)
    for kind in ("StatefulSet", "Service", "ConfigMap", "Deployment", "ServiceAccount", "Role", "RoleBinding"):
        for each in objects(resource, kind).values():
            assert "argocd" not in str(each)
            (owner,) = each["metadata"]["ownerReferences"]
            assert owner["uid"] == manifest["metadata"]["uid"]
            assert owner["controller"] is True


def test_a_stock_image_gets_the_connector_from_an_init_container() -> None:
    spec = pod_spec(a_resource())
    (init,) = spec["initContainers"]
    assert init["image"] == "tandem.dev/connector-init:0.1.0"
    (mount,) = init["volumeMounts"]
    assert init["args"] == [mount["mountPath"]] == ["/opt/tandem/connector"]
    assert named(engine(a_resource())["volumeMounts"], "connector")["mountPath"] == "/opt/tandem/connector"


def test_an_engine_has_no_token_and_no_variables_of_services() -> None:
    spec = pod_spec(a_resource())
    assert spec["automountServiceAccountToken"] is False
    assert spec["enableServiceLinks"] is False


def test_an_engine_is_told_who_it_is_and_where_its_peers_are() -> None:
    variables = environment(a_resource(), Role.PREFILL)
    assert variables["TANDEM_ROLE"] == "prefill"
    assert variables["TANDEM_POD_UID"]["fieldRef"]["fieldPath"] == "metadata.uid"
    assert variables["VLLM_NIXL_SIDE_CHANNEL_HOST"]["fieldRef"]["fieldPath"] == "status.podIP"
    assert variables["VLLM_NIXL_SIDE_CHANNEL_PORT"] == "5601"
    assert environment(a_resource().pulling())["VLLM_NIXL_SIDE_CHANNEL_PORT"] == "5600"
    assert variables["PYTHONHASHSEED"] == "0"
    assert variables["TANDEM_PEERS_FILE"] == "/etc/tandem/peers/peers.json"
    (item,) = named(pod_spec(a_resource())["volumes"], "peers")["downwardAPI"]["items"]
    assert item == {
        "path": "peers.json",
        "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.annotations['tandem.dev/peers']"},
    }


def test_an_engine_keeps_connections_open_for_longer_than_whoever_reuses_them() -> None:
    routers, nginxs = 2, 60
    assert int(environment(a_resource())["VLLM_HTTP_TIMEOUT_KEEP_ALIVE"]) > max(routers, nginxs)


def test_a_roles_variable_wins_over_the_shared_one_and_both_over_libfabrics_settings() -> None:
    resource = (
        a_resource()
        .on("p5en.48xlarge")
        .with_tensor(8)
        .with_spec("engine", "env", value=[{"name": "A", "value": "1"}, {"name": "FI_PROVIDER", "value": "tcp"}])
        .with_spec("decode", "env", value=[{"name": "A", "value": "2"}])
    )
    assert environment(resource, Role.PREFILL)["A"] == "1"
    assert environment(resource, Role.DECODE)["A"] == "2"
    assert environment(resource)["FI_PROVIDER"] == "tcp"


def test_the_hubs_token_comes_from_its_secret() -> None:
    source = {"huggingFace": {"tokenSecretRef": {"name": "hub", "key": "token"}}}
    resource = a_resource().with_spec("model", "source", value=source)
    assert environment(resource)["HF_TOKEN"] == {"secretKeyRef": {"name": "hub", "key": "token"}}


def test_a_models_volume_is_mounted_read_only() -> None:
    claim = a_resource().with_spec("model", "source", value={"volume": {"claimName": "weights", "subPath": "qwen"}})
    assert named(engine(claim)["volumeMounts"], "model") == {
        "name": "model",
        "mountPath": "/models",
        "readOnly": True,
        "subPath": "qwen",
    }
    assert named(pod_spec(claim)["volumes"], "model")["persistentVolumeClaim"]["claimName"] == "weights"
    folder = a_resource().with_spec("model", "source", value={"volume": {"hostPath": "/nvme/qwen"}})
    assert named(pod_spec(folder)["volumes"], "model")["hostPath"] == {"path": "/nvme/qwen", "type": "Directory"}


def test_an_engine_may_load_for_two_hours_and_is_asked_at_both_doors_then() -> None:
    container = engine(a_resource())
    startup = container["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] == 7200
    command = ["python3", "-I", "-S", "/opt/tandem/connector/tandem_connector/probe.py"]
    assert container["readinessProbe"]["exec"]["command"] == command


def test_an_engine_that_calls_itself_unwell_is_not_ready_and_has_long_to_recover() -> None:
    container = engine(a_resource())
    assert "--to-live" not in container["readinessProbe"]["exec"]["command"]
    assert container["livenessProbe"]["exec"]["command"] == [
        *container["readinessProbe"]["exec"]["command"],
        "--to-live",
    ]
    path = environment(a_resource())["TANDEM_STATUS_FILE"]
    assert any(
        path.startswith(f"{mount['mountPath']}/") for mount in container["volumeMounts"] if "readOnly" not in mount
    )


def test_a_pods_data_parallel_ranks_are_told_to_its_programs_and_have_ports_of_their_own() -> None:
    resource = a_resource().with_data(3, Role.DECODE)
    assert environment(resource, Role.DECODE)["TANDEM_DATA_PARALLEL"] == "3"
    assert template(resource, Role.DECODE)["metadata"]["labels"][DATA_LABEL] == "3"
    ports = {each["name"]: each["containerPort"] for each in engine(resource, Role.DECODE)["ports"]}
    assert ports == {"http": 8000, "side-channel": 5601, "side-channel-1": 5602, "side-channel-2": 5603}


def test_an_engine_alone_in_its_pod_is_told_nothing_of_ranks() -> None:
    for resource in (a_resource(), a_resource().with_data(1), a_resource().with_data(3, Role.DECODE)):
        assert without_revision(resource, Role.PREFILL) == without_revision(a_resource(), Role.PREFILL)


def test_the_longest_name_of_a_port_is_one_that_kubernetes_takes() -> None:
    ports = engine(a_resource().with_data(16))["ports"]
    assert max(len(each["name"]) for each in ports) <= 15


def test_a_pods_gpus_are_those_of_all_of_its_ranks() -> None:
    resource = a_resource().on("p5en.48xlarge").with_tensor(2).with_data(4, Role.DECODE)
    found = {role: engine(resource, role)["resources"]["limits"] for role in Role}
    assert (found[Role.DECODE]["nvidia.com/gpu"], found[Role.PREFILL]["nvidia.com/gpu"]) == ("8", "2")
    assert (found[Role.DECODE]["vpc.amazonaws.com/efa"], found[Role.PREFILL]["vpc.amazonaws.com/efa"]) == ("16", "4")


def test_the_port_for_peers_is_the_protocols_everywhere() -> None:
    for resource, port in ((a_resource(), 5601), (a_resource().pulling(), 5600)):
        service = objects(resource, "Service")["qwen-decode"]
        assert named(service["spec"]["ports"], "side-channel")["targetPort"] == port
        assert named(engine(resource)["ports"], "side-channel")["containerPort"] == port


def test_a_change_of_one_role_parts_both_as_pairs_are_of_one_revision() -> None:
    before, after = a_resource(), a_resource().with_spec("decode", "args", value=["--max-num-seqs=8"])
    assert without_revision(before, Role.PREFILL) == without_revision(after, Role.PREFILL)
    assert without_revision(before, Role.DECODE) != without_revision(after, Role.DECODE)
    assert revision(before, Role.PREFILL) != revision(after, Role.PREFILL) == revision(after, Role.DECODE)


def test_what_needs_new_engines_makes_a_revision_for_both_roles() -> None:
    changes = [
        a_resource().with_image("vllm/vllm-openai:v0.33.0"),
        a_resource().with_spec("engine", "version", value="0.32.1"),
        a_resource().with_spec("model", "name", value="Qwen/Qwen3-8B"),
        a_resource().with_spec("model", "revision", value="main"),
        a_resource().with_spec("engine", "blockSize", value=128),
        a_resource().with_arguments("--dtype=bfloat16"),
        a_resource().with_spec("engine", "env", value=[{"name": "VLLM_KV_CACHE_LAYOUT", "value": "HND"}]),
        a_resource().with_spec("model", "source", value={"volume": {"claimName": "weights"}}),
        a_resource().on("p5en.48xlarge"),
        a_resource().pulling(),
        a_resource().with_tensor(2),
        a_resource().with_spec("transfer", "auth", value={"secretRef": {"name": "keys", "key": "chat"}}),
        a_resource().with_spec("transfer", value={"reverse": "Disabled", "deadline": "5s", "minBlocks": 9}),
        a_resource().with_spec("placement", "nodeSelector", value={"a": "b"}),
        a_resource().with_data(2, Role.DECODE),
        a_resource().with_overlay(Role.PREFILL, {"metadata": {"labels": {"team": "chat"}}}),
        a_resource().with_spec("scaling", "drain", value={"timeout": "30s"}),
    ]
    revisions = {revision(resource, Role.DECODE) for resource in (a_resource(), *changes)}
    assert len(revisions) == 1 + len(changes)
    for resource in changes:
        assert revision(resource, Role.PREFILL) == revision(resource, Role.DECODE)


def test_what_needs_no_new_engines_makes_no_revision() -> None:
    same = [
        a_resource().with_decode(5),
        a_resource().with_spec("decode", "autoscaling", value={"maxReplicas": 3}),
        a_resource().with_spec("transfer", "peersPerDecode", value=2),
        a_resource().with_spec("scaling", value={"gpuBudget": 9, "ratio": {"min": "1/4"}, "drain": {"migrate": False}}),
        a_resource().with_spec("frontDoor", "replicas", value=2),
        a_resource().with_spec("rollout", value={"maxSurgePairs": 3}),
    ]
    assert {revision(resource, Role.DECODE) for resource in same} == {revision(a_resource(), Role.DECODE)}


def test_a_launch_configuration_is_immutable_and_named_after_its_content() -> None:
    before, after = a_resource(), a_resource().with_arguments("--dtype=bfloat16")
    assert all(each["immutable"] for each in objects(before, "ConfigMap").values())
    assert not objects(before, "ConfigMap").keys() & objects(after, "ConfigMap").keys()


def test_an_engine_that_is_deleted_is_forgotten_by_the_front_door_and_drained_before_it_is_told_to_end() -> None:
    hook = engine(a_resource())["lifecycle"]["preStop"]
    command = ["python3", "-I", "-S", "/opt/tandem/connector/tandem_connector/drain.py"]
    assert hook == {"exec": {"command": [*command, "--within=60", "--at-least=5", "--told-within=15"]}}
    assert pod_spec(a_resource())["terminationGracePeriodSeconds"] == 120


def test_an_engine_of_vllms_connector_is_only_forgotten_by_the_front_door() -> None:
    assert engine(a_resource().pulling())["lifecycle"] == {"preStop": {"sleep": {"seconds": 5}}}
    assert pod_spec(a_resource().pulling())["terminationGracePeriodSeconds"] == 90


def test_a_longer_grace_period_leaves_an_engine_more_time_to_drain_and_to_finish() -> None:
    resource = a_resource().with_overlay(Role.DECODE, {"spec": {"terminationGracePeriodSeconds": 600}})
    assert pod_spec(resource, Role.DECODE)["terminationGracePeriodSeconds"] == 600
    assert "--within=300" in engine(resource, Role.DECODE)["lifecycle"]["preStop"]["exec"]["command"]
    assert pod_spec(resource, Role.PREFILL)["terminationGracePeriodSeconds"] == 120


def test_a_longer_drain_makes_a_longer_grace_period() -> None:
    resource = a_resource().with_spec("scaling", value={"drain": {"timeout": "9m30s"}})
    assert "--within=570" in engine(resource)["lifecycle"]["preStop"]["exec"]["command"]
    assert pod_spec(resource)["terminationGracePeriodSeconds"] == 630


def test_whom_engines_work_with_and_hand_over_to_is_no_matter_of_their_pods() -> None:
    other = (
        a_resource()
        .with_spec("transfer", "peersPerDecode", value=9)
        .with_spec("scaling", value={"drain": {"migrate": False}})
    )
    assert template(other) == template(a_resource())
