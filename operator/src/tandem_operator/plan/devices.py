# SPDX-License-Identifier: Apache-2.0
"""What one engine pod gets of its node: GPUs, EFA devices, CPU and memory."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tandem_operator.api.accelerators import EFA_RESOURCE, GPU_RESOURCE, Profile
from tandem_operator.api.spec import Accelerator, Efa, Resources
from tandem_operator.api.transfer import Backend
from tandem_operator.api.values import amount_of
from tandem_operator.plan.errors import InvalidSpec
from tandem_operator.plan.resolved import Devices
from tandem_operator.plan.types import Manifest

CPUS_PER_GPU: Final = 4
GIBIBYTES_PER_GPU: Final = 32
"""What a GPU pod requests per GPU unless told otherwise: at most a third of the smallest share that a profile's node has (12 vCPUs
and 144 GiB per GPU, p4d.24xlarge), so that it never decides where a pod fits, but keeps it from the first rank of evictions."""


@dataclass(frozen=True)
class Wanted:
    """How a role's engines are to use GPUs."""

    field: str
    """The role's path, as `spec.prefill`."""
    tensor: int
    """GPUs of one data-parallel rank."""
    data: int
    """Data-parallel ranks of a pod."""

    @property
    def gpus(self) -> int:
        """Of a pod."""
        return self.tensor * self.data


def devices_of(accelerator: Accelerator, profile: Profile, backend: Backend, wanted: Wanted) -> Devices:
    """The devices of one pod.

    Args:
        accelerator: the spec's.
        profile: of its instance type.
        backend: over which KV moves.
        wanted: GPUs of the role's engines.

    Raises:
        InvalidSpec: the node hasn't as many, or the values contradict each other.
    """
    claims = _claims(accelerator.resource_claims)
    return Devices(
        profile=profile,
        gpu_resource=accelerator.gpu_resource or GPU_RESOURCE,
        gpus=_gpus(accelerator, profile, wanted),
        efa_resource=(accelerator.efa or Efa()).resource or EFA_RESOURCE,
        efas=_efas(accelerator, profile, backend, wanted),
        uses_efa=backend is Backend.LIBFABRIC,
        hugepages=accelerator.hugepages_2mi,
        claims=claims,
        privileged=bool(accelerator.privileged),
        shared_memory=accelerator.shared_memory or ("20Gi" if profile.gpus else "1Gi"),
    )


def _gpus(accelerator: Accelerator, profile: Profile, wanted: Wanted) -> int:
    if not profile.gpus:
        return 0
    if wanted.tensor > profile.gpus:
        raise InvalidSpec(
            f"{wanted.field}.parallelism.tensor",
            f"{wanted.tensor} GPUs are more than the {profile.gpus} of a {profile.instance_type} node; ask for fewer",
        )
    if wanted.gpus > profile.gpus:
        raise InvalidSpec(
            f"{wanted.field}.parallelism.data",
            f"{wanted.data} ranks of {wanted.tensor} GPUs are more than the {profile.gpus} of a {profile.instance_type} node;"
            " ask for fewer ranks, and for more replicas",
        )
    given = accelerator.gpus_per_pod
    if given is not None and given != wanted.gpus:
        raise InvalidSpec(
            "spec.accelerator.gpusPerPod",
            f"is {given} but tensor x data of {wanted.field}.parallelism is {wanted.gpus}; make them equal",
        )
    return given or (0 if accelerator.resource_claims else wanted.gpus)


def _efas(accelerator: Accelerator, profile: Profile, backend: Backend, wanted: Wanted) -> int:
    given = (accelerator.efa or Efa()).per_pod
    share = 0 if accelerator.resource_claims or backend is Backend.UCX else profile.efas_for(wanted.gpus)
    efas = share if given is None else given
    if backend is Backend.UCX and efas:
        raise InvalidSpec(
            "spec.transfer.backend", "UCX does not use EFA devices; use LIBFABRIC, or set efa.perPod to 0"
        )
    if backend is Backend.LIBFABRIC and not efas and not accelerator.resource_claims:
        if given is None and profile.has_efa:
            raise InvalidSpec(
                f"{wanted.field}.parallelism.tensor",
                f"{wanted.gpus} of the {profile.gpus} GPUs of a {profile.instance_type} node have no whole EFA device;"
                " raise it, or set spec.accelerator.efa.perPod, or set spec.transfer.backend to UCX",
            )
        raise InvalidSpec("spec.transfer.backend", "LIBFABRIC needs EFA devices; use UCX, or an instance type with EFA")
    return efas


def _claims(claims: tuple[dict[str, Any], ...]) -> tuple[Manifest, ...]:
    for index, claim in enumerate(claims):
        if not isinstance(claim.get("name"), str):
            raise InvalidSpec(f"spec.accelerator.resourceClaims[{index}].name", "each claim of a pod needs a name")
    return claims


def usual_requests(profile: Profile, gpus: int, limits: Mapping[str, str]) -> dict[str, str]:
    """CPU and memory that a GPU pod requests unless told otherwise. A limit alone is a request already."""
    if not profile.gpus:
        return {}
    usual = {"cpu": str(CPUS_PER_GPU * gpus), "memory": f"{GIBIBYTES_PER_GPU * gpus}Gi"}
    return {name: amount for name, amount in usual.items() if name not in limits}


def check_resources(resources: Resources, field: str) -> None:
    """Nothing is requested beyond its limit, which Kubernetes would refuse in the pod.

    Raises:
        InvalidSpec: something is.
    """
    limits = resources.limits or {}
    for name, request in (resources.requests or {}).items():
        if name in limits and amount_of(request) > amount_of(limits[name]):
            raise InvalidSpec(
                f"{field}.resources.requests.{name}",
                f"{request} is more than the limit {limits[name]}; make it at most that",
            )
