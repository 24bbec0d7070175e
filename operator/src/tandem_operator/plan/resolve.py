# SPDX-License-Identifier: Apache-2.0
"""From a spec with absent fields to values: the only place that knows the defaults.

Defaults are resolved here and not in the CRD, so that the stored object stays what its author wrote.
"""

from collections.abc import Mapping
from typing import Final

from tandem_connector.contract.reverse import Reverse
from tandem_connector.contract.types import Role
from tandem_operator.api.accelerators import INSTANCE_TYPES, Profile, profile_of
from tandem_operator.api.arguments import OWNED_VARIABLES
from tandem_operator.api.names import INSTANCE_TYPE_LABEL, MAX_NAME_LENGTH
from tandem_operator.api.network import EngineNetwork
from tandem_operator.api.resource import DisaggregatedInference
from tandem_operator.api.rollout import Rollout
from tandem_operator.api.rules import (
    DEFAULT_PROTOCOL,
    LONGEST_DEADLINE,
    LONGEST_PERIOD,
    MAX_PEERS,
    ONLY_WITH_PUSH,
    SHORTEST_PERIOD,
)
from tandem_operator.api.scaling import Autoscaling, Drain, Scaling
from tandem_operator.api.scaling_rules import MAX_REPLICAS
from tandem_operator.api.spec import (
    Accelerator,
    Decode,
    Efa,
    EnvironmentVariable,
    FrontDoor,
    FrontDoorService,
    HuggingFaceSource,
    ModelSource,
    Placement,
    Prefill,
    Resources,
    RoleParallelism,
    Spec,
)
from tandem_operator.api.transfer import Backend, Protocol, Transfer
from tandem_operator.api.values import percent_of, seconds_of
from tandem_operator.api.verification import Verification
from tandem_operator.plan.access import engine_access
from tandem_operator.plan.devices import Wanted, check_resources, devices_of, usual_requests
from tandem_operator.plan.ending import ending
from tandem_operator.plan.errors import InvalidSpec
from tandem_operator.plan.pace import pace_of
from tandem_operator.plan.resolved import (
    Gateway,
    KeySource,
    ModelFiles,
    NixlTransfer,
    Place,
    Pool,
    PushTransfer,
    Resolved,
    Verifying,
    Wiring,
)
from tandem_operator.plan.sizing import ratio_of, sizing_of
from tandem_operator.plan.types import Defaults, Manifest

PEERS_PER_DECODE: Final = 4

ABOVE_TOKENS: Final = 256
PATIENCE_SECONDS: Final = 20.0
PERIOD_SECONDS: Final = 600.0
LANDING_SHARE: Final = 0.25
MIN_BLOCKS: Final = 4
"""Of the exchange; the same as the connector's own, which a test compares."""


def resolve(resource: DisaggregatedInference, defaults: Defaults) -> Resolved:
    """Every value that the rest of planning needs, but for the numbers of engines that scalers ask for.

    Raises:
        InvalidSpec: when the values contradict each other. The API server refuses most of this; a resource that is
            older than a rule, or that meets an older CRD, comes through.
    """
    metadata, spec = resource.metadata, resource.spec
    if len(metadata.name) > MAX_NAME_LENGTH:
        raise InvalidSpec("metadata.name", f"has more than {MAX_NAME_LENGTH} characters; choose a shorter name")
    transfer = _transfer(spec.transfer or Transfer())
    if isinstance(transfer, NixlTransfer):
        _check_pull(spec)
    profile = _profile(spec.accelerator)
    backend = _backend(spec, profile)
    pools = {role: _pool(spec, role, profile, backend) for role in Role}
    scaling = spec.scaling or Scaling()
    _check_tensors(transfer, prefill=pools[Role.PREFILL].tensor, decode=pools[Role.DECODE].tensor)
    return Resolved(
        name=metadata.name,
        namespace=metadata.namespace,
        uid=metadata.uid,
        model=_model(spec),
        image=spec.engine.image,
        version=spec.engine.version or _version_of(spec.engine.image),
        arguments=spec.engine.args,
        environment=_environment(("spec.engine.env", spec.engine.env)),
        pull_secrets=tuple(secret.name for secret in spec.engine.image_pull_secrets),
        block_size=spec.engine.block_size,
        transfer=transfer,
        wiring=_wiring(spec),
        backend=backend,
        pools=pools,
        ratio=ratio_of(scaling),
        gpu_budget=scaling.gpu_budget,
        pace=pace_of(spec.rollout or Rollout()),
        front_door=_gateway(spec.front_door or FrontDoor(), defaults),
        place=_place(spec.placement or Placement(), profile, pools),
        network=engine_access(spec.network_policy or EngineNetwork(), defaults),
        verifying=_verifying(spec.verification or Verification()),
        connector_image=defaults.connector_image,
    )


def protocol_of(spec: Spec) -> Protocol:
    """The protocol, also of a spec that cannot be acted on."""
    return (spec.transfer or Transfer()).protocol or Protocol(DEFAULT_PROTOCOL)


def _transfer(given: Transfer) -> PushTransfer | NixlTransfer:
    if (given.protocol or Protocol(DEFAULT_PROTOCOL)) is Protocol.NIXL_PULL:
        for field in given.model_dump(by_alias=True, exclude_none=True).keys() & set(ONLY_WITH_PUSH):
            raise InvalidSpec(
                f"spec.transfer.{field}",
                "has no effect with spec.transfer.protocol: NixlPull; remove the field, or set that to Push",
            )
        return NixlTransfer(bidirectional=given.reverse not in {None, Reverse.DISABLED})
    patience = PATIENCE_SECONDS if given.deadline is None else seconds_of(given.deadline)
    if not 0 < patience <= seconds_of(LONGEST_DEADLINE):
        raise InvalidSpec("spec.transfer.deadline", f"must be above 0s and at most {LONGEST_DEADLINE}, for example 20s")
    secret = given.auth.secret_ref if given.auth else None
    return PushTransfer(
        reverse=given.reverse or Reverse.PUSH_AND_FETCH,
        above_tokens=ABOVE_TOKENS if given.disaggregate_above_tokens is None else given.disaggregate_above_tokens,
        patience=patience,
        landing_share=LANDING_SHARE if given.landing_fraction is None else percent_of(given.landing_fraction),
        min_blocks=given.min_blocks or MIN_BLOCKS,
        key=KeySource(secret.name, secret.key) if secret else None,
    )


def _wiring(spec: Spec) -> Wiring:
    transfer, drain = spec.transfer or Transfer(), _drain_of(spec)
    ranks = (spec.prefill.parallelism or RoleParallelism()).data or 1
    if (transfer.peers_per_decode or 1) * ranks > MAX_PEERS:
        raise InvalidSpec(
            "spec.transfer.peersPerDecode",
            f"{transfer.peers_per_decode} prefill pods of {ranks} data-parallel ranks are more than the {MAX_PEERS} engines"
            " that one can address; ask for fewer",
        )
    return Wiring(peers_per_decode=transfer.peers_per_decode or PEERS_PER_DECODE, migrate=drain.migrate is not False)


def _verifying(given: Verification) -> Verifying | None:
    period = PERIOD_SECONDS if given.period is None else seconds_of(given.period)
    if not seconds_of(SHORTEST_PERIOD) <= period <= seconds_of(LONGEST_PERIOD):
        raise InvalidSpec(
            "spec.verification.period", f"must be from {SHORTEST_PERIOD} to {LONGEST_PERIOD}, for example 10m"
        )
    return None if given.enabled is False else Verifying(period)


def _drain_of(spec: Spec) -> Drain:
    return (spec.scaling or Scaling()).drain or Drain()


def _check_pull(spec: Spec) -> None:
    """What makes no sense, or too much, where vLLM's connector is used."""
    if spec.scaling and spec.scaling.drain:
        raise InvalidSpec(
            "spec.scaling.drain",
            "has no effect with spec.transfer.protocol: NixlPull; remove the field, or set that to Push",
        )
    for role, given in ((Role.PREFILL, spec.prefill), (Role.DECODE, spec.decode)):
        ranks = (given.parallelism or RoleParallelism()).data or 1
        if ranks > 1:
            raise InvalidSpec(
                f"spec.{role}.parallelism.data",
                f"{ranks} data-parallel ranks need spec.transfer.protocol: Push; set that, or remove the field and ask for more"
                " replicas",
            )
        bounds = given.autoscaling or Autoscaling()
        numbers = {
            "replicas": given.replicas,
            "autoscaling.minReplicas": bounds.min_replicas,
            "autoscaling.maxReplicas": bounds.max_replicas,
        }
        for field, number in numbers.items():
            if (number or 0) <= MAX_PEERS:
                continue
            raise InvalidSpec(
                f"spec.{role}.{field}",
                f"{number} engines are more than {MAX_PEERS}, which is all that an engine can address with"
                " spec.transfer.protocol: NixlPull; ask for fewer, or set that to Push",
            )


def _check_tensors(transfer: PushTransfer | NixlTransfer, *, prefill: int, decode: int) -> None:
    what = f"{decode} and prefill's {prefill}"
    field = "spec.decode.parallelism.tensor"
    if isinstance(transfer, PushTransfer) and prefill != decode:
        remedy = "make them equal, or set spec.transfer.protocol: NixlPull"
        raise InvalidSpec(field, f"{what}: Push needs equal ones; {remedy}")
    if max(prefill, decode) % min(prefill, decode):
        raise InvalidSpec(field, f"{what}: one must be a multiple of the other")


def _profile(accelerator: Accelerator) -> Profile:
    profile = profile_of(accelerator.instance_type)
    if profile is None:
        raise InvalidSpec(
            "spec.accelerator.instanceType",
            f"{accelerator.instance_type} is not known to this version of Tandem; choose one of {', '.join(INSTANCE_TYPES)}",
        )
    return profile


def _backend(spec: Spec, profile: Profile) -> Backend:
    given = (spec.transfer or Transfer()).backend
    has_efa = profile.has_efa and (spec.accelerator.efa or Efa()).per_pod != 0
    return given or (Backend.LIBFABRIC if has_efa else Backend.UCX)


def _model(spec: Spec) -> ModelFiles:
    model = spec.model
    source = model.source or ModelSource()
    if source.volume and bool(source.volume.claim_name) == bool(source.volume.host_path):
        raise InvalidSpec("spec.model.source.volume", "set exactly one of claimName and hostPath")
    return ModelFiles(
        name=model.name,
        served_name=model.clients_name,
        revision=model.revision,
        token=(source.hugging_face or HuggingFaceSource()).token_secret_ref,
        volume=source.volume,
    )


def _version_of(image: str) -> str:
    """The tag without a leading `v`; empty for an image without a tag."""
    last = image.partition("@")[0].rpartition("/")[2]
    return last.partition(":")[2].removeprefix("v")


def _pool(spec: Spec, role: Role, profile: Profile, backend: Backend) -> Pool:
    given: Prefill | Decode = spec.prefill if role is Role.PREFILL else spec.decode
    field = f"spec.{role}"
    parallelism = given.parallelism or RoleParallelism()
    wanted = Wanted(field, tensor=parallelism.tensor or 1, data=parallelism.data or 1)
    if (parallelism.pipeline or 1) > 1:
        raise InvalidSpec(
            f"{field}.parallelism.pipeline", "is not supported yet; raise tensor instead, and remove the field"
        )
    overlay = given.pod_template or {}
    devices = devices_of(spec.accelerator, profile, backend, wanted)
    resources = given.resources or Resources()
    check_resources(resources, field)
    limits = dict(resources.limits or {})
    sizing = sizing_of(given, field, MAX_PEERS if protocol_of(spec) is Protocol.NIXL_PULL else MAX_REPLICAS)
    return Pool(
        role=role,
        replicas=sizing.first,
        sizing=sizing,
        tensor=wanted.tensor,
        data=wanted.data,
        gpus=wanted.gpus if profile.gpus else 0,
        arguments=(*spec.engine.args, *given.args),
        environment=_environment(("spec.engine.env", spec.engine.env), (f"{field}.env", given.env)),
        requests={**usual_requests(profile, wanted.gpus, limits), **(resources.requests or {})},
        limits=limits,
        devices=devices,
        overlay=overlay,
        ending=ending(
            overlay,
            str(role),
            exchanges=protocol_of(spec) is Protocol.PUSH,
            timeout=_drain_of(spec).timeout,
        ),
    )


def _environment(*layers: tuple[str, tuple[EnvironmentVariable, ...]]) -> tuple[Manifest, ...]:
    """The layers as one list; a later layer wins over an earlier one of the same name and keeps its place."""
    merged: dict[str, Manifest] = {}
    for field, variables in layers:
        for variable in variables:
            if variable.name in OWNED_VARIABLES and not (variable.name == "PYTHONHASHSEED" and variable.value == "0"):
                raise InvalidSpec(f"{field}[{variable.name}]", "only Tandem sets this variable; remove it")
            merged[variable.name] = variable.model_dump(by_alias=True, exclude_none=True)
    merged.pop("PYTHONHASHSEED", None)
    return tuple(merged.values())


def _gateway(given: FrontDoor, defaults: Defaults) -> Gateway:
    service = given.service or FrontDoorService()
    check_resources(given.resources or Resources(), "spec.frontDoor")
    return Gateway(
        enabled=given.enabled is not False,
        image=given.image or defaults.front_door_image,
        replicas=given.replicas or 1,
        policy=given.policy or "consistent_hash",
        arguments=given.args,
        resources=(given.resources or Resources()).model_dump(exclude_none=True),
        service_type=service.type or "ClusterIP",
        service_annotations=service.annotations or {},
        overlay=given.pod_template or {},
    )


def _place(given: Placement, profile: Profile, pools: Mapping[Role, Pool]) -> Place:
    uses_gpus = profile.gpus > 0
    gpu_resources = sorted({pool.devices.gpu_resource for pool in pools.values()})
    selector = {INSTANCE_TYPE_LABEL: profile.instance_type} if uses_gpus else {}
    return Place(
        single_zone=profile.has_efa,
        near_network=profile.has_efa and given.prefer_near_network is not False,
        spread_roles=uses_gpus and given.spread_roles_across_hosts is not False,
        node_selector={**selector, **(given.node_selector or {})},
        tolerations=(
            *({"key": name, "operator": "Exists", "effect": "NoSchedule"} for name in gpu_resources if uses_gpus),
            *given.tolerations,
        ),
        scheduler_name=given.scheduler_name,
        priority_class_name=given.priority_class_name,
    )
