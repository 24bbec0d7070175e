# SPDX-License-Identifier: Apache-2.0
"""`spec` of a DisaggregatedInference, field by field.

Few fields have a default in the schema: what is absent stays absent in the stored object (a GitOps tool sees no drift)
and is resolved at reconcile time, in `plan/resolve.py`.
"""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from tandem_operator.api.accelerators import INSTANCE_TYPES
from tandem_operator.api.arguments import ENGINE_ARGUMENT_RULES, FRONT_DOOR_ARGUMENT_RULES
from tandem_operator.api.base import ApiModel
from tandem_operator.api.network import EngineNetwork
from tandem_operator.api.objects import LocalObject, SecretKey
from tandem_operator.api.rollout import Rollout
from tandem_operator.api.rule import rules
from tandem_operator.api.rules import (
    ACCELERATOR_RULES,
    ENVIRONMENT_RULES,
    MODEL_SOURCE_RULES,
    RESOURCES_RULES,
    SPEC_RULES,
    VOLUME_SOURCE_RULES,
)
from tandem_operator.api.scaling import Autoscaling, Replicas, Scaling
from tandem_operator.api.transfer import Transfer
from tandem_operator.api.values import (
    INT32,
    Arguments,
    DeviceName,
    Image,
    Labels,
    Name,
    NumberOrQuantity,
    OpenObject,
    Quantity,
    ResourceClaim,
    ShortText,
)
from tandem_operator.api.verification import Verification


class HuggingFaceSource(ApiModel):
    """The model's files on the Hugging Face hub."""

    token_secret_ref: SecretKey | None = None
    """Secret key that holds the access token, for gated models."""


class VolumeSource(ApiModel, json_schema_extra=rules(VOLUME_SOURCE_RULES)):
    """The model's files on a volume. One of `claimName` and `hostPath` is set."""

    claim_name: Name | None = None
    """A PersistentVolumeClaim in the resource's namespace."""
    host_path: Annotated[str, Field(pattern="^/", max_length=1024)] | None = None
    """A folder on every node, for example on the instance's NVMe disks."""
    sub_path: ShortText | None = None
    """Folder of the model inside the volume; default: the volume's root."""


class ModelSource(ApiModel, json_schema_extra=rules(MODEL_SOURCE_RULES)):
    """Where the model's files come from; one of its fields is set."""

    hugging_face: HuggingFaceSource | None = None
    """The Hugging Face hub, with a token."""
    volume: VolumeSource | None = None
    """Files on a volume, mounted read-only."""


class Model(ApiModel):
    """The model to serve."""

    name: ShortText
    """Hub repository, as `Qwen/Qwen3-32B`. With `source.volume` it is only the name clients use."""
    served_name: ShortText | None = None
    """The name in the API's requests and responses; default: the last path segment of `name`."""
    revision: ShortText | None = None
    """Branch, tag or commit in the hub repository; default: its main branch."""
    source: ModelSource | None = None
    """Where the files come from; default: the hub, without a token."""

    @property
    def clients_name(self) -> str:
        """What clients call it."""
        return self.served_name or self.name.rstrip("/").rpartition("/")[2]


class EnvironmentVariable(ApiModel, json_schema_extra=rules(ENVIRONMENT_RULES)):
    """An environment variable, as in a pod."""

    name: Annotated[str, Field(min_length=1, max_length=253, pattern="^[ -<>-~]+$")]
    """Printable ASCII without `=`."""
    value: Annotated[str, Field(max_length=8192)] | None = None
    """May refer to earlier variables as `$(NAME)`."""
    value_from: OpenObject | None = None
    """As in a pod's `env[].valueFrom`."""


Environment = Annotated[
    tuple[EnvironmentVariable, ...],
    Field(max_length=64, json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}),
]


class Engine(ApiModel, json_schema_extra=rules(ENGINE_ARGUMENT_RULES)):
    """The vLLM engine, for both roles (vLLM's handshake wants the same version on both sides)."""

    image: Image
    """A vLLM image, for example `vllm/vllm-openai:v0.32.0`; the connector is added by an init container."""
    version: Annotated[str, Field(max_length=63)] | None = None
    """vLLM's version in the image; default: the image's tag without a leading `v`."""
    args: Arguments = ()
    """Further arguments of `vllm serve`, for both roles."""
    env: Environment = ()
    """Further environment variables, for both roles."""
    image_pull_secrets: Annotated[
        tuple[LocalObject, ...],
        Field(
            max_length=16, json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
        ),
    ] = ()
    """Secrets for pulling `image`."""
    block_size: Annotated[int, Field(ge=1, le=1024, json_schema_extra=INT32)] | None = None
    """Tokens in a KV block, on both sides; default: vLLM's own."""


class Efa(ApiModel):
    """EFA devices of a pod."""

    resource: DeviceName | None = None
    """Name of the device plugin's resource; default `vpc.amazonaws.com/efa`."""
    per_pod: Annotated[int, Field(ge=0, le=64, json_schema_extra=INT32)] | None = None
    """Devices of a pod; default: its share of the node's by its GPUs (p5en: 2 for each GPU)."""


class Accelerator(ApiModel, json_schema_extra=rules(ACCELERATOR_RULES)):
    """What an engine pod gets of the node."""

    instance_type: Annotated[str, Field(max_length=32, json_schema_extra={"enum": list(INSTANCE_TYPES)})]
    """An EC2 instance type, with `ml.` before it on SageMaker HyperPod, or `none` for engines on CPUs.

    It decides the devices, the node selector and the KV backend."""
    gpu_resource: DeviceName | None = None
    """Name of the GPUs' resource; default `nvidia.com/gpu`."""
    gpus_per_pod: Annotated[int, Field(ge=0, le=16, json_schema_extra=INT32)] | None = None
    """GPUs of a pod; default: the role's `parallelism.tensor`, for each of its data-parallel ranks."""
    efa: Efa | None = None
    """EFA devices; default: the pod's share of the node's."""
    hugepages_2mi: Quantity | None = None
    """Huge pages of a pod, for example `5120Mi` (request == limit); default: none. libfabric does without."""
    resource_claims: Annotated[
        tuple[ResourceClaim, ...],
        Field(
            max_length=16, json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
        ),
    ] = ()
    """`spec.resourceClaims` of the pod, for DRA drivers; the devices of the profile are then not requested."""
    privileged: bool | None = None
    """Run engines privileged; default false. They then see all of the node's devices; not needed for EFA."""
    shared_memory: Quantity | None = None
    """Size of `/dev/shm`; default `20Gi` with GPUs, `1Gi` without."""


class RoleParallelism(ApiModel):
    """How a role's engine is split, and how often it is in a pod."""

    tensor: Annotated[int, Field(ge=1, le=16, json_schema_extra=INT32)] | None = None
    """Tensor-parallel size; default 1. Equal in both roles; with `NixlPull` one must be a multiple of the other."""
    pipeline: Annotated[int, Field(ge=1, le=16, json_schema_extra=INT32)] | None = None
    """Pipeline-parallel size; only 1 so far."""
    data: Annotated[int, Field(ge=1, le=16, json_schema_extra=INT32)] | None = None
    """Data-parallel ranks of a pod, behind its one server; default 1. Each has `tensor` GPUs and is an engine of its own to its peers.

    The roles may differ. Only with `Push`."""


class Resources(ApiModel, json_schema_extra=rules(RESOURCES_RULES)):
    """CPU and memory of a container; devices come from `accelerator`."""

    requests: Annotated[dict[str, NumberOrQuantity], Field(max_length=16)] | None = None
    """What the scheduler keeps free for the container."""
    limits: Annotated[dict[str, NumberOrQuantity], Field(max_length=16)] | None = None
    """What the container may use at most."""


class _Role(ApiModel):
    replicas: Replicas | None = None
    """Engines of this role. Absent, or beside `autoscaling`: what the role's DisaggregatedInferenceScaler asks for.

    Beside `autoscaling` it is only what a new scaler asks for first, which is 1 by default."""
    autoscaling: Autoscaling | None = None
    """Bounds of what the role's scaler may ask for. `{}` leaves the number to the scaler without bounds."""
    parallelism: RoleParallelism | None = None
    """How engines use the GPUs of their pod; default: one engine, not split."""
    args: Arguments = ()
    """Further arguments of `vllm serve`, after `engine.args`."""
    env: Environment = ()
    """Further environment variables; they win over `engine.env`."""
    resources: Resources | None = None
    """CPU and memory of the engine's container."""
    pod_template: OpenObject | None = None
    """Changes of the generated pod template, merged as `kubectl patch` merges: labels, nodeSelector, volumes, sidecars..."""


class Prefill(_Role, json_schema_extra=rules(ENGINE_ARGUMENT_RULES)):
    """The pool that computes prompts."""


class Decode(_Role, json_schema_extra=rules(ENGINE_ARGUMENT_RULES)):
    """The pool that generates answers."""


class FrontDoorService(ApiModel):
    """The front door's Service."""

    type: Literal["ClusterIP", "NodePort", "LoadBalancer"] | None = None
    """Type of the Service; default `ClusterIP`."""
    annotations: Annotated[dict[str, Annotated[str, Field(max_length=4096)]], Field(max_length=32)] | None = None
    """For a load balancer's controller, for example."""


class FrontDoor(ApiModel, json_schema_extra=rules(FRONT_DOOR_ARGUMENT_RULES)):
    """vllm-router, the gateway in front of the engines."""

    enabled: bool | None = None
    """Whether the operator runs a front door; default true. Without one the Service `NAME-routable` has the engines' addresses."""
    image: Image | None = None
    """Image of vllm-router; default: the one that the operator was installed with."""
    replicas: Annotated[int, Field(ge=1, le=100, json_schema_extra=INT32)] | None = None
    """Pods of the front door; default 1."""
    policy: (
        Literal[
            "consistent_hash", "cache_aware", "kv_aware", "sticky_least_loaded", "power_of_two", "round_robin", "random"
        ]
        | None
    ) = None
    """How an engine is chosen; default `consistent_hash` (keeps `x-session-id` on one engine)."""
    args: Arguments = ()
    """Further arguments of vllm-router."""
    resources: Resources | None = None
    """CPU and memory of the front door's container."""
    service: FrontDoorService | None = None
    """The Service that clients talk to."""
    pod_template: OpenObject | None = None
    """Changes of the generated pod template, merged as `kubectl patch` merges."""


class ZonePolicy(StrEnum):
    """How many availability zones a resource's engines may be in."""

    SINGLE = "Single"


class Placement(ApiModel):
    """Where the engine pods may run."""

    zone: ZonePolicy | None = None
    """`Single` (default): all engines in one zone, since EFA cannot cross zones. Applies to instance types with EFA."""
    prefer_near_network: bool | None = None
    """Prefer nodes that share the deepest network layer; default true."""
    spread_roles_across_hosts: bool | None = None
    """Prefer prefill and decode on different nodes; default true."""
    node_selector: Labels | None = None
    """Further labels that a node must have, beside the instance type's."""
    tolerations: Annotated[
        tuple[OpenObject, ...], Field(max_length=32, json_schema_extra={"x-kubernetes-list-type": "atomic"})
    ] = ()
    """Added to the toleration of `nvidia.com/gpu` that GPU pods get."""
    scheduler_name: Name | None = None
    """Scheduler of the engine pods; default: the cluster's."""
    priority_class_name: Name | None = None
    """Priority class of the engine pods; default: the cluster's."""


class Spec(ApiModel, json_schema_extra=rules(SPEC_RULES)):
    """What to run."""

    model: Model
    """The model to serve."""
    engine: Engine
    """The vLLM engine, for both roles."""
    accelerator: Accelerator
    """What an engine pod gets of its node."""
    prefill: Prefill
    """The pool that computes prompts."""
    decode: Decode
    """The pool that generates answers."""
    transfer: Transfer | None = None
    """How the KV cache moves between the pools."""
    front_door: FrontDoor | None = None
    """The gateway in front of the engines."""
    placement: Placement | None = None
    """Where the engine pods may run."""
    network_policy: EngineNetwork | None = None
    """Who may connect to the engines."""
    scaling: Scaling | None = None
    """How many engines there may be, and how they end."""
    rollout: Rollout | None = None
    """How engines follow a change of their configuration."""
    verification: Verification | None = None
    """Whether, and how often, it is shown that KV moves."""
