# SPDX-License-Identifier: Apache-2.0
"""`spec.transfer` of a DisaggregatedInference."""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from tandem_connector.contract.reverse import Reverse
from tandem_operator.api.base import ApiModel
from tandem_operator.api.objects import SecretKey
from tandem_operator.api.rule import rules
from tandem_operator.api.rules import MAX_PEERS, TRANSFER_RULES
from tandem_operator.api.values import INT32, Duration, Percentage

MAX_TOKENS: Final = 10_000_000
MAX_BLOCKS: Final = 1_000_000


class Protocol(StrEnum):
    """How KV gets from one engine to the other."""

    PUSH = "Push"
    NIXL_PULL = "NixlPull"


class Backend(StrEnum):
    """NIXL's transport."""

    LIBFABRIC = "LIBFABRIC"
    UCX = "UCX"


class Auth(ApiModel):
    """What proves that an engine belongs to the resource."""

    secret_ref: SecretKey
    """Secret key that holds a key file, as `{"version": 1, "secretKey": "<64 hexadecimal digits>"}`.

    To rotate it, write another one there that names the former as `previousSecretKey`: engines that run take it up."""


class Transfer(ApiModel, json_schema_extra=rules(TRANSFER_RULES)):
    """How the KV cache moves."""

    protocol: Protocol | None = None
    """`Push` (default): decode asks prefill, and each writes into the other's cache what it lacks, by content hash.

    `NixlPull`: vLLM's NixlConnector, its two legs run by the front door; for models that `Push` refuses."""
    backend: Backend | None = None
    """NIXL's transport; default `LIBFABRIC` where the engines get EFA devices, else `UCX`."""
    reverse: Reverse | None = None
    """Which ways KV goes back from decode to prefill; default `PushAndFetch` with `Push`, `Disabled` with `NixlPull`.

    With `NixlPull` any but `Disabled` turns on vLLM's bidirectional transfer. It needs a front door that carries its
    handles, which vllm-router 0.1.17 does not."""
    disaggregate_above_tokens: Annotated[int, Field(ge=0, le=MAX_TOKENS, json_schema_extra=INT32)] | None = None
    """Decode asks for a prefill when it lacks more prompt tokens than this, and else computes them; default 256."""
    peers_per_decode: Annotated[int, Field(ge=1, le=MAX_PEERS, json_schema_extra=INT32)] | None = None
    """How many prefill engines each decode engine works with, near ones first; default 4, or all if there are fewer."""
    deadline: Duration | None = None
    """How long decode waits for a prefill engine that makes no progress, besides the time for the work that waits there.

    Then it asks the next one, or computes. Default `20s`."""
    landing_fraction: Percentage | None = None
    """How much of an engine's free KV blocks may be taken at one time for what its peers offer; default `25%`."""
    min_blocks: Annotated[int, Field(ge=1, le=MAX_BLOCKS, json_schema_extra=INT32)] | None = None
    """Prefill computes what decode holds, instead of fetching it, when that is fewer blocks than this; default 4."""
    auth: Auth | None = None
    """The key by which engines know each other; default: the operator makes one."""
