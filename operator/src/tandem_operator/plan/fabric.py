# SPDX-License-Identifier: Apache-2.0
"""Whether engines exchange over what the resource asks for: the condition `FabricActive`."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from tandem_operator.api.status import Reason
from tandem_operator.api.transfer import Backend
from tandem_operator.plan.finding import Finding
from tandem_operator.plan.pods import EnginePod
from tandem_operator.plan.resolved import NixlTransfer, Resolved
from tandem_operator.plan.verification import Fabric

EFA: Final = "efa"


class Complaint(NamedTuple):
    """What an engine uses instead of what was asked for."""

    reason: Reason
    message: str


def fabric_active(resolved: Resolved, pods: Sequence[EnginePod]) -> Finding:
    """What the engines say of themselves, against what is asked for; `pods` are those that it is about."""
    if isinstance(resolved.transfer, NixlTransfer):
        return Finding(None, Reason.NOT_WITH_NIXL_PULL, "engines with NixlPull don't say over what they exchange")
    if resolved.verifying is None:
        return Finding(None, Reason.VERIFICATION_OFF, "engines aren't asked: spec.verification.enabled is false")
    complaints = list(fabric_complaints(resolved, pods))
    if complaints:
        more = f"; and {len(complaints) - 1} more" if len(complaints) > 1 else ""
        return Finding(False, complaints[0].reason, complaints[0].message + more)
    told = [pod for pod in pods if pod.record and pod.record.fabric]
    if not told:
        return Finding(None, Reason.FABRIC_NOT_REPORTED, "no engine has said yet over what it exchanges")
    what = f"{len(told)} of {len(pods)} engines said so: {resolved.backend}"
    if resolved.backend is Backend.UCX:
        return Finding(
            True,
            Reason.FABRIC_AS_ASKED,
            f"{what}, as asked, which takes what the pods' network offers; EFA is not asked for",
        )
    return Finding(True, Reason.FABRIC_AS_ASKED, f"{what} over EFA, with the devices that were asked for")


def fabric_complaints(resolved: Resolved, pods: Sequence[EnginePod]) -> Iterator[Complaint]:
    """What is not as asked, engine by engine."""
    for pod in pods:
        if pod.record and pod.record.fabric and (complaint := _complaint(resolved, pod, pod.record.fabric)):
            yield complaint


def _complaint(resolved: Resolved, pod: EnginePod, fabric: Fabric) -> Complaint | None:
    wanted = resolved.pools[pod.role].devices.efas
    if fabric.backend != resolved.backend:
        return Complaint(
            Reason.WRONG_BACKEND,
            f"{pod.name} exchanges over NIXL's {fabric.backend} and not over {resolved.backend}: use an engine image whose NIXL has"
            f" that plug-in, or set spec.transfer.backend to {fabric.backend}",
        )
    if resolved.backend is Backend.LIBFABRIC and fabric.provider != EFA:
        pinned = f"FI_PROVIDER is {fabric.provider}" if fabric.provider else "FI_PROVIDER is not set"
        return Complaint(
            Reason.TCP_FALLBACK,
            f"{pod.name} may exchange over TCP: {pinned}, and libfabric takes what it finds; remove FI_PROVIDER from spec.engine.env,"
            f" spec.{pod.role}.env and the image",
        )
    if fabric.devices < wanted:
        return Complaint(
            Reason.DEVICES_MISSING,
            f"{pod.name} was given {fabric.devices} of {wanted} EFA devices: look at the EFA device plug-in of its node",
        )
    return None
