# SPDX-License-Identifier: Apache-2.0
"""Whether what an engine of one revision holds is of use to an engine of another.

Engines check it themselves when they meet, but for what they can't see: arguments and variables that change what the KV of a prompt
is, while its blocks keep their names. So these must be the same, but for those that are known to change nothing of it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Final

from tandem_operator.plan.resolved import Pool, PushTransfer, Resolved
from tandem_operator.plan.revision import hash_of

_WITHOUT_EFFECT: Final = frozenset(
    {
        "--chat-template",
        "--disable-log-stats",
        "--enable-auto-tool-choice",
        "--enable-log-requests",
        "--gpu-memory-utilization",
        "--max-num-batched-tokens",
        "--max-num-seqs",
        "--no-enable-log-requests",
        "--reasoning-parser",
        "--scheduling-policy",
        "--tool-call-parser",
        "--uvicorn-log-level",
    }
)
"""Arguments of vLLM that change nothing of the KV of a prompt. `--max-model-len` isn't one: it may choose a model's long rope."""


def kin_of(resolved: Resolved, pool: Pool) -> str | None:
    """The same for engines of a role that can use each other's blocks; None where they hand over none."""
    if not isinstance(resolved.transfer, PushTransfer):
        return None
    model = resolved.model
    return hash_of(
        {
            "image": resolved.image,
            "version": resolved.version,
            "connector": resolved.connector_image,
            "model": [model.name, model.revision],
            "volume": model.volume.model_dump() if model.volume else None,
            "arguments": list(_with_effect(pool.arguments)),
            "environment": [dict(variable) for variable in pool.environment],
            "blockSize": resolved.block_size,
            "tensor": pool.tensor,
            "key": asdict(resolved.transfer.key) if resolved.transfer.key else None,
            "backend": resolved.backend,
            "instanceType": pool.devices.profile.instance_type,
            "overlay": dict(pool.overlay),
        }
    )


def _with_effect(arguments: Sequence[str]) -> Iterator[str]:
    """All but those without effect, and the values that follow these."""
    is_left_out = False
    for argument in arguments:
        if argument.startswith("--"):
            is_left_out = argument.partition("=")[0].replace("_", "-") in _WITHOUT_EFFECT
        if not is_left_out:
            yield argument
