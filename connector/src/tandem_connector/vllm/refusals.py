# SPDX-License-Identifier: Apache-2.0
"""What this connector can't do, refused by name when the engine starts, with what to use instead."""

from dataclasses import dataclass
from typing import Final

_ALTERNATIVE: Final = "set `spec.transfer.protocol: NixlPull` on the resource"
HASH_ALGORITHMS: Final = frozenset({"sha256", "sha256_cbor"})


class UnsupportedError(Exception):
    """The engine must not start with this connector: the text names everything that is in the way."""


@dataclass(frozen=True, slots=True)
class EngineShape:
    """What matters of an engine's configuration."""

    connector: str
    """`kv_connector`: the class, or MultiConnector around it."""
    kv_role: str
    load_failure_policy: str
    prefix_caching: bool
    hash_algorithm: str
    block_size: int
    hash_block_size: int
    groups: int
    """KV cache groups: block tables of one request."""
    full_attention: bool
    """All layers keep the KV of all tokens."""
    pipeline_parallel: int
    prefill_context_parallel: int
    decode_context_parallel: int
    speculative: bool
    """Speculative decoding that keeps KV of its own."""
    policy: str
    encoder_decoder: bool
    one_server: bool
    """All data-parallel ranks are behind one HTTP server, and on its machine."""


def refusals(shape: EngineShape) -> tuple[str, ...]:
    """Everything that is in the way, each with its remedy."""
    checks = (
        (shape.connector != "TandemConnector", f"MultiConnector or a subclass ({shape.connector}): {_ALTERNATIVE}"),
        (shape.kv_role != "kv_both", f"kv_role {shape.kv_role}: set kv_both, blocks go both ways"),
        (
            shape.load_failure_policy != "recompute",
            f"kv_load_failure_policy {shape.load_failure_policy}: set recompute, or a lost peer fails requests",
        ),
        (not shape.prefix_caching, "prefix caching is off: blocks have no names without it; leave it on"),
        (
            shape.hash_algorithm not in HASH_ALGORITHMS,
            f"prefix_caching_hash_algo {shape.hash_algorithm} has another seed in each process: set sha256_cbor",
        ),
        (shape.groups != 1, f"{shape.groups} KV cache groups (hybrid attention): {_ALTERNATIVE}"),
        (not shape.full_attention, f"layers that don't keep the KV of all tokens: {_ALTERNATIVE}"),
        (
            shape.block_size != shape.hash_block_size,
            f"blocks of {shape.block_size} tokens are named by {shape.hash_block_size} tokens: {_ALTERNATIVE}",
        ),
        (shape.pipeline_parallel != 1, f"pipeline parallelism {shape.pipeline_parallel}: {_ALTERNATIVE}"),
        (
            shape.prefill_context_parallel != 1 or shape.decode_context_parallel != 1,
            f"context parallelism {shape.prefill_context_parallel}/{shape.decode_context_parallel}: {_ALTERNATIVE}",
        ),
        (shape.speculative, f"speculative decoding with KV of its own: {_ALTERNATIVE}"),
        (
            shape.policy != "fcfs",
            f"scheduling policy {shape.policy}: it names blocks of a step that it then takes back; set fcfs",
        ),
        (shape.encoder_decoder, f"an encoder-decoder model: {_ALTERNATIVE}"),
        (
            not shape.one_server,
            "data-parallel ranks behind several servers, or on other machines (--data-parallel-rank, -size-local, -external-lb,"
            " -hybrid-lb): peers find ranks behind one server; give only --data-parallel-size",
        ),
    )
    return tuple(text for refused, text in checks if refused)


def check_supported(shape: EngineShape) -> None:
    """Pass, or say everything that is in the way.

    Raises:
        UnsupportedError: something is.
    """
    if found := refusals(shape):
        raise UnsupportedError("TandemConnector can't exchange the KV cache of this engine: " + "; ".join(found))
