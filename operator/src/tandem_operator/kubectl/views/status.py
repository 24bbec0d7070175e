# SPDX-License-Identifier: Apache-2.0
"""A resource with its roles, engines and pairs."""

from tandem_connector.contract.types import Role
from tandem_operator.api.base import ApiModel
from tandem_operator.api.status import (
    Condition,
    Quarantined,
    RequestedVerification,
    Revision,
    RoleStatus,
    Status,
    Topology,
)
from tandem_operator.kubectl.views.engine import Engine, Pair, engines, pairs
from tandem_operator.kubectl.views.seen import Seen


class FrontDoor(ApiModel):
    """Its Deployment."""

    available: int
    replicas: int


class ResourceView(ApiModel):
    """One resource as it stands."""

    namespace: str
    name: str
    model: str
    ready: bool
    current: bool
    """Whether the operator has looked at the resource as it is now."""
    deleting: bool
    conditions: tuple[Condition, ...]
    endpoint: str
    front_door: FrontDoor | None
    """None: there is none."""
    revision: Revision
    prefill: RoleStatus
    decode: RoleStatus
    topology: Topology
    quarantined: tuple[Quarantined, ...]
    verification: RequestedVerification | None
    """What came of the newest request for it; None: nobody asks for one."""
    engines: tuple[Engine, ...]
    pairs: tuple[Pair, ...]
    unread: tuple[str, ...]
    """What couldn't be read, and why."""

    def engines_of(self, role: Role) -> tuple[Engine, ...]:
        """Those of one role."""
        return tuple(each for each in self.engines if each.role is role)

    def counts_of(self, role: Role) -> RoleStatus:
        """As the operator counted."""
        return self.prefill if role is Role.PREFILL else self.decode


def resource_view(seen: Seen) -> ResourceView:
    """The resource as it was seen."""
    resource = seen.observed.resource
    status = resource.status or Status()
    return ResourceView(
        namespace=resource.metadata.namespace,
        name=resource.metadata.name,
        model=resource.spec.model.name,
        ready=seen.is_ready,
        current=seen.is_current,
        deleting=resource.metadata.deletion_timestamp is not None,
        conditions=status.conditions,
        endpoint=status.endpoint,
        front_door=_front_door(seen),
        revision=status.revision,
        prefill=status.prefill,
        decode=status.decode,
        topology=status.topology,
        quarantined=status.quarantined,
        verification=status.verification,
        engines=engines(seen),
        pairs=pairs(seen.pods),
        unread=seen.unread,
    )


def _front_door(seen: Seen) -> FrontDoor | None:
    if (deployment := seen.observed.front_door) is None:
        return None
    wanted = (deployment.get("spec") or {}).get("replicas", 1)
    return FrontDoor(available=deployment.get("status", {}).get("availableReplicas") or 0, replicas=wanted)
