# SPDX-License-Identifier: Apache-2.0
"""How one engine is told to exchange: `kv_connector_extra_config`, and what the operator sets on the pod."""

from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from tandem_connector.contract.environment import (
    API_KEY,
    JOURNAL,
    KEYS_FILE,
    PEERS_FILE,
    RANK_SUFFIX,
    ROLE,
    SIDE_CHANNEL_PORT,
    STATUS_FILE,
)
from tandem_connector.contract.reverse import Reverse
from tandem_connector.contract.types import Role
from tandem_connector.exchange.liveness import DEFAULTS as LIVENESS
from tandem_connector.vllm.keyring import OVERLAP

HOST_VARIABLE: Final = "VLLM_NIXL_SIDE_CHANNEL_HOST"
"""The pod's address; the one that the peer table gives to peers. Read under vLLM's own name for it."""
PORT_VARIABLE: Final = "VLLM_NIXL_SIDE_CHANNEL_PORT"
_LAST_PORT: Final = 65_535
_FROM_ENVIRONMENT: Final = {
    "listen_host": HOST_VARIABLE,
    "listen_port": PORT_VARIABLE,
    "role": ROLE,
    "peers_file": PEERS_FILE,
    "keys_file": KEYS_FILE,
    "status_file": STATUS_FILE,
    "api_key": API_KEY,
    "journal": JOURNAL,
}


def exposable(pool: int, longest: int) -> int:
    """How many of an engine's blocks its peers may write into at one time.

    All but those of one request of the greatest length, with which vLLM can always go on; half of a pool that has hardly more.

    Args:
        pool: the engine's blocks.
        longest: those of a request of the greatest length.
    """
    return max(pool - 1 - longest, pool // 2)


class SettingsError(Exception):
    """The engine must not start: a setting is wrong. The text names each, with what is allowed."""


class ConnectorSettings(BaseModel):
    """All settings. What has no default of the engine's own comes from the variable that is named with it."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    listen_host: str = "127.0.0.1"
    """The IP address to listen on for peers (`VLLM_NIXL_SIDE_CHANNEL_HOST`). Without keys only loopback is allowed."""
    listen_port: Annotated[int, Field(ge=0, le=_LAST_PORT)] = SIDE_CHANNEL_PORT
    """And the port (`VLLM_NIXL_SIDE_CHANNEL_PORT`); 0 takes a free one. A data-parallel rank takes one as many above."""
    role: Role | None = None
    """`prefill` or `decode` (`TANDEM_ROLE`). Needed when there is a peer table."""
    peers_file: Path | None = None
    """The peer table (`TANDEM_PEERS_FILE`). None: the engine has no peers, and is a plain vLLM server."""
    keys_file: Path | None = None
    """The resource's key (`TANDEM_KEYS_FILE`)."""
    status_file: Path | None = None
    """Where the engine says how it is (`TANDEM_STATUS_FILE`). None: nowhere."""
    api_key: Annotated[str | None, Field(repr=False)] = None
    """What the prefill engines take as their API key: the engine's own (`VLLM_API_KEY`). vLLM gives `--api-key` to its HTTP
    server only, so that a key that is given so is not known here, and P refuses the prefills."""

    disaggregate_above_tokens: Annotated[int, Field(ge=0)] = 256
    """Decode asks for a prefill when more prompt tokens than this are missing; 0: always."""
    reverse: Reverse = Reverse.PUSH_AND_FETCH
    """Which ways blocks go back to prefill."""
    patience: Annotated[float, Field(gt=0, le=1_800)] = 20.0
    """Seconds for which a prefill engine may show no progress, besides the time for what it has to compute before."""
    rest: Annotated[float, Field(ge=0, le=600)] = 10.0
    """Seconds for which a prefill engine that failed isn't asked."""
    fetch_deadline: Annotated[float, Field(gt=0, le=600)] = 10.0
    """Seconds for which prefill waits for what it fetches from decode."""
    fetch_min_blocks: Annotated[int, Field(ge=1)] = 4
    """Prefill fetches nothing when fewer blocks than this are to be had, whatever it has measured."""
    estimate_age: Annotated[float, Field(ge=0, le=3_600)] = 60.0
    """Prefill computes what decode holds, or what is landing, where that is sooner than to wait for it, by what its own steps
    and wants took. What was measured longer ago than this many seconds doesn't count: before there is a measure it fetches
    and waits. 0: it always does."""
    landing_share: Annotated[float, Field(ge=0, le=1)] = 0.25
    """Part of the free blocks that may be taken at one time for what peers offer."""
    landing_deadline: Annotated[float, Field(gt=0, le=600)] = 5.0
    """Seconds for which blocks are held for what was offered, and for which a request waits for it at most."""
    offer_every: Annotated[int, Field(ge=0)] = 8
    """Full blocks that a request computes between two offers while it decodes; 0: only at its end."""
    quarantine_share: Annotated[float, Field(gt=0, le=1)] = 0.25
    """Part of the pool that may be in quarantine before the engine is unhealthy."""
    silent_after: Annotated[float, Field(ge=0.5, le=120)] = LIVENESS.silent_after
    """Seconds without a word after which a peer counts as silent."""
    backends: Annotated[tuple[str, ...], Field(min_length=1)] = ("UCX",)
    """NIXL backends, the first that takes the memory is used."""
    key_overlap: Annotated[float, Field(gt=0, le=3_600)] = OVERLAP
    """Seconds for which a key is used on after its successor was found in the key file: more than a kubelet takes to refresh
    the files of its pods."""
    journal: Path | None = None
    """Debug log of the exchange (`TANDEM_JOURNAL`), for `python -m tandem_connector.vllm.replay`. None: none."""

    @property
    def transport_bound(self) -> float:
        """Seconds after which nothing arrives any more from an engine that has left the peer table.

        One that lives all the same (its pod was removed by force) writes until it counts this engine as silent.
        """
        return max(10.0, 2 * self.silent_after)

    @field_validator("listen_host")
    @classmethod
    def _is_address(cls, value: str) -> str:
        ip_address(value)
        return value

    @classmethod
    def of(cls, extra: Mapping[str, Any], environment: Mapping[str, str], rank: int = 0) -> Self:
        """The settings in `kv_connector_extra_config`, and in variables where that has none.

        Args:
            extra: what all of a server's data-parallel ranks are told.
            environment: the same.
            rank: this one. Another one than the first has a port and files of its own, named after those of the first.

        Raises:
            SettingsError: one is unknown or wrong, or they contradict each other.
        """
        told = {
            name: environment[variable] for name, variable in _FROM_ENVIRONMENT.items() if environment.get(variable)
        }
        try:
            settings = cls.model_validate({**told, **extra})
        except ValidationError as error:
            raise SettingsError("; ".join(_told(dict(at)) for at in error.errors())) from None
        if settings.peers_file is not None and settings.role is None:
            raise SettingsError(f"a peer table is given, but no role: set {ROLE} to prefill or decode")
        return settings.of_rank(rank) if rank else settings

    def of_rank(self, rank: int) -> Self:
        """Those of another data-parallel rank than the first, whose these are: a port and files of its own.

        Raises:
            SettingsError: there is no such port.
        """
        port = self.listen_port and self.listen_port + rank
        if port > _LAST_PORT:
            raise SettingsError(f"{PORT_VARIABLE}: {self.listen_port} leaves no port for data-parallel rank {rank}")
        files = {
            name: path.with_name(f"{path.name}{RANK_SUFFIX}{rank}")
            for name, path in (("status_file", self.status_file), ("journal", self.journal))
            if path is not None
        }
        return self.model_copy(update={"listen_port": port, **files})


def _told(error: dict[str, Any]) -> str:
    name = ".".join(map(str, error["loc"]))
    variable = _FROM_ENVIRONMENT.get(name)
    where = f"kv_connector_extra_config.{name}" + (f" or {variable}" if variable else "")
    return f"{where}: {error['msg']}"
