# SPDX-License-Identifier: Apache-2.0
"""vllm-router in front of the engines."""

from typing import Any

from tandem_connector.contract.types import Role
from tandem_operator.plan.front_door import endpoint
from tandem_operator.plan.resolve import resolve
from tests.builders import DEFAULTS, a_resource
from tests.builders.resources import ResourceBuilder
from tests.plan.made import named, objects


def pod_spec(resource: ResourceBuilder) -> dict[str, Any]:
    (deployment,) = objects(resource, "Deployment").values()
    found: dict[str, Any] = deployment["spec"]["template"]["spec"]
    return found


def router(resource: ResourceBuilder) -> dict[str, Any]:
    return named(pod_spec(resource)["containers"], "router")


def options(resource: ResourceBuilder) -> dict[str, list[str]]:
    """Each option with the words up to the next one."""
    found: dict[str, list[str]] = {}
    for word in router(resource)["args"]:
        if word.startswith("--"):
            found[word] = []
        else:
            found[list(found)[-1]].append(word)
    return found


def test_the_router_finds_routable_engines_of_this_resource_in_its_namespace() -> None:
    given = options(a_resource("chat").in_namespace("here").pulling())
    assert "--selector" not in given
    for role in ("prefill", "decode"):
        words = ["tandem.dev/resource=chat", f"tandem.dev/role={role}", "tandem.dev/routable=true"]
        assert given[f"--{role}-selector"] == words
    assert given["--service-discovery"] == []
    assert given["--service-discovery-namespace"] == ["here"]
    assert given["--service-discovery-port"] == ["8000"]
    assert given["--vllm-pd-disaggregation"] == []
    assert given["--kv-connector"] == ["nixl"]


def test_with_push_the_router_knows_decode_engines_only_and_takes_them_for_plain_servers() -> None:
    given = options(a_resource("chat").in_namespace("here"))
    assert given["--selector"] == ["tandem.dev/resource=chat", "tandem.dev/role=decode", "tandem.dev/routable=true"]
    assert given["--service-discovery"] == []
    assert given["--service-discovery-namespace"] == ["here"]
    assert given["--service-discovery-port"] == ["8000"]
    assert given["--policy"] == ["consistent_hash"]
    of_two_legs = {"--prefill-selector", "--decode-selector", "--vllm-pd-disaggregation", "--kv-connector"}
    assert not given.keys() & of_two_legs


def test_a_router_that_starts_slowly_is_not_ended_by_its_liveness() -> None:
    probes = router(a_resource())
    startup, liveness = probes["startupProbe"], probes["livenessProbe"]
    assert startup["httpGet"] == liveness["httpGet"]
    assert (
        startup["failureThreshold"] * startup["periodSeconds"]
        > liveness["failureThreshold"] * liveness["periodSeconds"]
    )


def test_the_router_chooses_among_the_ranks_of_decode_where_it_has_some() -> None:
    assert options(a_resource().with_data(4, Role.DECODE))["--intra-node-data-parallel-size"] == ["4"]
    assert "--intra-node-data-parallel-size" not in options(a_resource().with_data(4, Role.PREFILL))


def test_the_policy_and_further_arguments_are_the_users() -> None:
    front_door = {"policy": "cache_aware", "args": ["--request-timeout-secs", "60"]}
    resource = a_resource().with_spec("frontDoor", value=front_door)
    assert options(resource)["--policy"] == ["cache_aware"]
    assert router(resource)["args"][-2:] == ["--request-timeout-secs", "60"]


def test_an_engine_that_fails_is_left_alone_before_a_request_to_it_has_used_up_its_tries() -> None:
    given = {option: int(words[0]) for option, words in options(a_resource()).items() if words and words[0].isdigit()}
    tries_of_a_request = 5
    assert given["--cb-failure-threshold"] < tries_of_a_request
    assert given["--health-check-interval-secs"] * given["--health-failure-threshold"] <= 10


def test_a_new_engine_that_does_not_answer_keeps_the_router_from_others_no_longer_than_kubernetes_calls_it_ready() -> (
    None
):
    given = options(a_resource())
    (engine,) = objects(a_resource(), "StatefulSet")["qwen-decode"]["spec"]["template"]["spec"]["containers"]
    probe = engine["readinessProbe"]
    found_out_within = probe["failureThreshold"] * max(probe["periodSeconds"], 5) + probe["periodSeconds"]
    assert found_out_within <= int(given["--worker-startup-timeout-secs"][0]) <= 2 * found_out_within


def test_what_the_user_says_of_faults_wins() -> None:
    resource = a_resource().with_spec("frontDoor", value={"args": ["--cb-failure-threshold=1"]})
    words = router(resource)["args"]
    assert words.index("--cb-failure-threshold=1") > words.index("--cb-failure-threshold")


def test_answers_under_way_end_before_a_routers_pod_does() -> None:
    assert pod_spec(a_resource())["terminationGracePeriodSeconds"] > 300
    assert router(a_resource())["lifecycle"]["preStop"]["sleep"]["seconds"] >= 5


def test_the_router_may_look_at_pods_and_nothing_else() -> None:
    (role,), (binding,) = objects(a_resource(), "Role").values(), objects(a_resource(), "RoleBinding").values()
    assert role["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    (account,) = objects(a_resource(), "ServiceAccount").values()
    (subject,) = binding["subjects"]
    assert subject == {"kind": "ServiceAccount", "name": account["metadata"]["name"], "namespace": "models"}
    assert pod_spec(a_resource())["serviceAccountName"] == account["metadata"]["name"]


def test_the_router_runs_without_any_right_on_its_node() -> None:
    assert pod_spec(a_resource())["securityContext"]["runAsNonRoot"] is True
    assert router(a_resource())["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }


def test_the_service_leads_to_the_router_under_the_name_of_the_resource() -> None:
    service = objects(a_resource("chat"), "Service")["chat"]
    assert service["spec"]["selector"] == {"tandem.dev/resource": "chat", "tandem.dev/role": "front-door"}
    (port,) = service["spec"]["ports"]
    assert port["port"] == 8000
    assert named(router(a_resource())["ports"], port["targetPort"])["containerPort"] == 8000
    assert endpoint(resolve(a_resource("chat").build(), DEFAULTS)) == "http://chat.models.svc:8000"


def test_the_services_type_and_annotations_can_be_chosen() -> None:
    value = {"type": "LoadBalancer", "annotations": {"lb": "internal"}}
    service = objects(a_resource().with_spec("frontDoor", "service", value=value), "Service")["qwen"]
    assert service["spec"]["type"] == "LoadBalancer"
    assert service["metadata"]["annotations"] == {"lb": "internal"}


def test_image_replicas_resources_and_pod_template_can_be_chosen() -> None:
    value = {
        "image": "registry/router:1",
        "replicas": 3,
        "resources": {"requests": {"cpu": "2"}},
        "podTemplate": {"spec": {"priorityClassName": "high"}},
    }
    resource = a_resource().with_spec("frontDoor", value=value)
    assert objects(resource, "Deployment")["qwen"]["spec"]["replicas"] == 3
    assert router(resource)["image"] == "registry/router:1"
    assert router(resource)["resources"] == {"requests": {"cpu": "2"}}
    assert pod_spec(resource)["priorityClassName"] == "high"


def test_without_a_front_door_the_service_leads_straight_to_routable_decode_engines() -> None:
    resource = a_resource().with_spec("frontDoor", "enabled", value=False)
    assert objects(resource, "Service")["qwen"]["spec"]["selector"] == {
        "tandem.dev/resource": "qwen",
        "tandem.dev/role": "decode",
        "tandem.dev/routable": "true",
    }
    for kind in ("Deployment", "ServiceAccount", "Role", "RoleBinding"):
        assert not objects(resource, kind)


def test_without_a_front_door_a_gateway_finds_the_addresses_of_those_that_take_turns_and_of_nobody_else() -> None:
    resource = a_resource().with_spec("frontDoor", "enabled", value=False)
    spec = objects(resource, "Service")["qwen-routable"]["spec"]
    assert spec["clusterIP"] == "None"
    assert spec["selector"] == objects(resource, "Service")["qwen"]["spec"]["selector"]
    assert not spec.get("publishNotReadyAddresses")
    assert "qwen-routable" not in objects(a_resource(), "Service")
