# SPDX-License-Identifier: Apache-2.0
"""Any resource that can be acted on, and any pods that it may have."""

from typing import Any

from hypothesis import strategies as st

from tandem_connector.contract.types import Role
from tandem_operator.api.accelerators import NO_ACCELERATOR
from tandem_operator.api.names import REVISION_LABEL
from tests.builders import TEMPLATE, a_node, a_pod, a_resource
from tests.builders.nodes import NodeBuilder
from tests.builders.pods import PodBuilder
from tests.builders.resources import ResourceBuilder
from tests.builders.surroundings import revisions_of

_OVERLAY: dict[str, Any] = {
    "metadata": {"labels": {"team": "chat"}, "annotations": {"note": "x"}},
    "spec": {
        "tolerations": [{"key": "spot", "operator": "Exists"}],
        "containers": [
            {"name": "engine", "env": [{"name": "MORE", "value": "1"}]},
            {"name": "sidecar", "image": "busybox:1"},
        ],
    },
}
_SOURCES: list[dict[str, Any]] = [
    {"huggingFace": {"tokenSecretRef": {"name": "hub", "key": "token"}}},
    {"volume": {"claimName": "weights", "subPath": "qwen"}},
    {"volume": {"hostPath": "/mnt/k8s-disks/0"}},
]
_TRANSFERS: list[dict[str, Any]] = [
    {},
    {"protocol": "Push", "reverse": "Fetch", "deadline": "1m30s", "landingFraction": "0%", "minBlocks": 1},
    {"disaggregateAboveTokens": 0, "auth": {"secretRef": {"name": "keys", "key": "chat"}}},
    {"peersPerDecode": 1},
]
_BOUNDS: list[dict[str, int]] = [{"minReplicas": 1}, {"maxReplicas": 4}, {"minReplicas": 0, "maxReplicas": 2}]
_SCALINGS: list[dict[str, Any]] = [
    {},
    {"ratio": {"min": "1/2"}},
    {"ratio": {"min": "1/4", "max": "1/1"}, "gpuBudget": 16},
]
_NETWORKS: list[dict[str, Any]] = [
    {},
    {"enabled": False},
    {"allowHttpFrom": [{"ipBlock": {"cidr": "10.0.0.0/8"}}, {"podSelector": {}, "namespaceSelector": {}}]},
]
_text = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20)


@st.composite
def _sized(draw: st.DrawFn, resource: ResourceBuilder) -> ResourceBuilder:
    """With any numbers of engines, fixed or left open."""
    for role in Role:
        if (replicas := draw(st.none() | st.integers(0, 3))) is not None:
            resource = resource.with_spec(str(role), "replicas", value=replicas)
        if bounds := draw(st.none() | st.sampled_from(_BOUNDS)):
            resource = resource.with_spec(str(role), "autoscaling", value=bounds)
    for field, value in draw(st.sampled_from(_SCALINGS)).items():
        resource = resource.with_spec("scaling", field, value=value)
    return resource


@st.composite
def _with_ranks(draw: st.DrawFn, resource: ResourceBuilder, tensor: int) -> ResourceBuilder:
    """With so many GPUs for each data-parallel rank, and as many ranks as a node has GPUs for at most."""
    resource = resource.with_tensor(tensor)
    for role in Role:
        if data := draw(st.none() | st.sampled_from([ranks for ranks in (1, 2, 4) if ranks * tensor <= 8])):
            resource = resource.with_data(data, role)
    return resource


@st.composite
def resources(draw: st.DrawFn) -> ResourceBuilder:
    instance_type = draw(
        st.sampled_from([NO_ACCELERATOR, "p5en.48xlarge", "ml.p5en.48xlarge", "p5.48xlarge", "p6-b200.48xlarge"])
    )
    resource = a_resource().on(instance_type)
    tensors = st.sampled_from([1, 2, 4, 8])
    if draw(st.booleans()):
        resource = resource.pulling()
        for role in Role:
            resource = resource.with_tensor(draw(tensors), role)
    else:
        resource = draw(_with_ranks(resource, draw(tensors)))
        resource = resource.with_spec("transfer", value=draw(st.sampled_from(_TRANSFERS)))
        if draw(st.booleans()):
            drain = {"timeout": "30s", "migrate": draw(st.booleans())}
            resource = resource.with_spec("scaling", "drain", value=drain)
    resource = draw(_sized(resource))
    resource = resource.with_arguments(*draw(st.lists(_text, max_size=3)))
    if draw(st.booleans()):
        resource = resource.with_overlay(Role.DECODE, _OVERLAY)
    if source := draw(st.none() | st.sampled_from(_SOURCES)):
        resource = resource.with_spec("model", "source", value=source)
    if instance_type != NO_ACCELERATOR and draw(st.booleans()):
        resource = resource.with_spec("accelerator", "hugepages2Mi", value="1Gi")
    if instance_type != NO_ACCELERATOR and draw(st.booleans()):
        claims = [{"name": "gpus", "resourceClaimTemplateName": "gpus-and-efas"}]
        resource = resource.with_spec("accelerator", "resourceClaims", value=claims)
    if draw(st.booleans()):
        resource = resource.with_spec("accelerator", "privileged", value=True)
    if draw(st.booleans()):
        resource = resource.with_spec("frontDoor", "service", value={"type": "NodePort", "annotations": {"a": "b"}})
    if draw(st.booleans()):
        resource = resource.with_spec("engine", "imagePullSecrets", value=[{"name": "registry"}])
    resource = resource.with_spec("networkPolicy", value=draw(st.sampled_from(_NETWORKS)))
    if draw(st.booleans()):
        resource = resource.with_spec("placement", value={"schedulerName": "kueue", "nodeSelector": {"a": "b"}})
    return resource


NODES: tuple[NodeBuilder, ...] = (
    a_node("node-a").in_zone("z1").under("top", "middle", "left"),
    a_node("node-b").in_zone("z1").under("top", "middle", "right"),
    a_node("node-c").not_ready(),
    a_node("node-d").in_zone("z2").cordoned(),
)


@st.composite
def pods(draw: st.DrawFn, resource: ResourceBuilder) -> tuple[PodBuilder, ...]:
    """Up to six pods in any state, with annotations of any age or none, or garbage."""
    (record,) = revisions_of(resource.build())
    current = record["metadata"]["labels"][REVISION_LABEL]
    drawn: list[PodBuilder] = []
    for role in Role:
        for ordinal in range(draw(st.integers(0, 3))):
            pod = a_pod(role, ordinal).of_template(TEMPLATE)
            pod = pod.of_revision(draw(st.sampled_from([current, current, "old"])))
            pod = pod.on_node(draw(st.sampled_from(["node-a", "node-b", "node-c", "node-d", "node-unknown"])))
            if draw(st.booleans()):
                pod = pod.with_address(f"10.0.{len(drawn)}.1").running(restarts=draw(st.integers(0, 2)))
                pod = pod.ready() if draw(st.booleans()) else pod
            pod = pod.with_ranks(draw(st.integers(1, 3))) if draw(st.booleans()) else pod
            pod = pod.routable() if draw(st.booleans()) else pod
            pod = pod.terminating() if draw(st.integers(0, 3)) == 0 else pod
            if draw(st.integers(0, 5)) == 0:
                pod = pod.with_container(state={"terminated": {"exitCode": 0}})
            pod = pod.listening_on(5600) if draw(st.integers(0, 5)) == 0 else pod
            if annotation := draw(st.none() | st.sampled_from(_ANNOTATIONS)):
                pod = pod.with_peers(annotation)
            drawn.append(pod)
    return tuple(drawn)


_ANNOTATIONS = (
    "",
    "not json",
    "[]",
    '{"version":2,"generation":9,"digest":"","peers":[]}',
    '{"version":1,"generation":7,"digest":"e3b0c44298fc1c14","peers":[]}',
    '{"version":1,"generation":4,"digest":"wrong","peers":[]}',
    '{"version":1,"generation":-3,"digest":"","peers":[]}',
    '{"version":1,"generation":99999999999999999999,"digest":"","peers":[]}',
)
