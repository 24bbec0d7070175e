# SPDX-License-Identifier: Apache-2.0
"""A resource in which nothing is left open. Everything after `resolve` reads these, never the spec."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction

from tandem_connector.contract.environment import EXCHANGE_PORT, SIDE_CHANNEL_PORT
from tandem_connector.contract.reverse import Reverse
from tandem_connector.contract.types import Role
from tandem_operator.api.accelerators import Profile
from tandem_operator.api.objects import SecretKey
from tandem_operator.api.spec import VolumeSource
from tandem_operator.api.transfer import Backend, Protocol
from tandem_operator.plan.ending import Ending
from tandem_operator.plan.types import Manifest


@dataclass(frozen=True)
class ModelFiles:
    """Which model, and where its files are."""

    name: str
    served_name: str
    revision: str | None
    token: SecretKey | None
    volume: VolumeSource | None


@dataclass(frozen=True)
class Devices:
    """What one engine pod gets of its node."""

    profile: Profile
    gpu_resource: str
    gpus: int
    """Requested of the device plugin; 0 when claims bring them."""
    efa_resource: str
    efas: int
    """As `gpus`."""
    uses_efa: bool
    """Whether KV goes over EFA, however the devices come."""
    hugepages: str | None
    claims: tuple[Manifest, ...]
    privileged: bool
    shared_memory: str

    @property
    def loses_isolation(self) -> bool:
        """Whether the pod sees EFA devices that belong to others: a privileged container gets all of the node's."""
        return self.privileged and 0 < self.efas < self.profile.efas


@dataclass(frozen=True)
class Sizing:
    """What the spec says of a role's number of engines."""

    is_fixed: bool
    """The number is `first`. Else the role's scaler asks for it."""
    first: int
    """What a new scaler asks for, where the number isn't fixed."""
    least: int
    most: int


@dataclass(frozen=True)
class Ratio:
    """Bounds of prefill over decode engines; None: none."""

    min: Fraction | None
    max: Fraction | None


@dataclass(frozen=True)
class Pool:
    """One role's engines."""

    role: Role
    replicas: int
    """Engines that there are to be now."""
    sizing: Sizing
    tensor: int
    data: int
    """Data-parallel ranks of one pod."""
    gpus: int
    """Of one pod, whichever way they come; 0 on CPUs."""
    arguments: tuple[str, ...]
    """The user's, shared ones first."""
    environment: tuple[Manifest, ...]
    """The user's, as a container's `env`; names are unique."""
    requests: Mapping[str, str]
    """CPU and memory."""
    limits: Mapping[str, str]
    devices: Devices
    overlay: Manifest
    """Empty when there is none."""
    ending: Ending


@dataclass(frozen=True)
class KeySource:
    """Where a key file is."""

    secret: str
    entry: str
    """Key in the Secret's data."""


@dataclass(frozen=True)
class PushTransfer:
    """KV moves by Tandem's exchange."""

    reverse: Reverse
    above_tokens: int
    """Prompt tokens."""
    patience: float
    """Seconds."""
    landing_share: float
    """Of the free blocks."""
    min_blocks: int
    key: KeySource | None
    """The user's; None: the operator makes one."""


@dataclass(frozen=True)
class NixlTransfer:
    """KV moves by vLLM's NixlConnector."""

    bidirectional: bool


@dataclass(frozen=True)
class Wiring:
    """Who of the engines that exchange knows whom. With `NixlPull` it is about those of a configuration before."""

    peers_per_decode: int
    migrate: bool
    """Whether engines have heirs, which get what they hold when they end."""


@dataclass(frozen=True)
class Pace:
    """How revisions follow each other."""

    at_once: bool
    """All engines of the old one go first."""
    surge: int
    """Engines of each role beyond those wanted."""
    patience: timedelta
    """How long no engine of the new one may become ready."""
    paused: bool


@dataclass(frozen=True)
class Gateway:
    """The front door."""

    enabled: bool
    image: str
    replicas: int
    policy: str
    arguments: tuple[str, ...]
    resources: Manifest
    service_type: str
    service_annotations: Mapping[str, str]
    overlay: Manifest


@dataclass(frozen=True)
class EngineAccess:
    """Who may connect to engines."""

    enabled: bool
    allow_http_from: tuple[Manifest, ...]
    """The user's, as in a NetworkPolicy's `from`."""
    operator: tuple[Manifest, ...]
    """Where the operator's own pods are; empty when it runs outside of pods."""


@dataclass(frozen=True)
class Verifying:
    """How it is shown that KV moves."""

    period: float
    """Seconds."""


@dataclass(frozen=True)
class Place:
    """Where engine pods may run."""

    single_zone: bool
    near_network: bool
    spread_roles: bool
    node_selector: Mapping[str, str]
    tolerations: tuple[Manifest, ...]
    scheduler_name: str | None
    priority_class_name: str | None


@dataclass(frozen=True)
class Resolved:
    """A resource in which nothing is left open."""

    name: str
    namespace: str
    uid: str
    model: ModelFiles
    image: str
    version: str
    """Empty when neither the spec nor the image's tag tells."""
    arguments: tuple[str, ...]
    """For both roles; also the beginning of each pool's."""
    environment: tuple[Manifest, ...]
    """For both roles; also part of each pool's."""
    pull_secrets: tuple[str, ...]
    block_size: int | None
    transfer: PushTransfer | NixlTransfer
    wiring: Wiring
    backend: Backend
    pools: Mapping[Role, Pool]
    ratio: Ratio
    gpu_budget: int | None
    pace: Pace
    front_door: Gateway
    place: Place
    network: EngineAccess
    verifying: Verifying | None
    """None: it isn't."""
    connector_image: str

    @property
    def protocol(self) -> Protocol:
        """Which of the two transfers it is."""
        return Protocol.PUSH if isinstance(self.transfer, PushTransfer) else Protocol.NIXL_PULL

    @property
    def side_channel_port(self) -> int:
        """Where an engine listens for its peers' messages."""
        return EXCHANGE_PORT if isinstance(self.transfer, PushTransfer) else SIDE_CHANNEL_PORT
