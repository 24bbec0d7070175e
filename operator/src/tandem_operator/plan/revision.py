# SPDX-License-Identifier: Apache-2.0
"""Hashes that name a state of the configuration."""

import hashlib
import json
from dataclasses import asdict
from typing import Any

from tandem_connector.contract.types import Role
from tandem_operator.plan.resolved import PushTransfer, Resolved


def hash_of(value: Any) -> str:
    """10 hexadecimal digits of SHA-256 over a JSON value."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def revision_of(resolved: Resolved) -> str:
    """Hash of what prefill and decode must have in common to understand each other's KV.

    vLLM's handshake compares version, model, attention backend and cache type, all of which follow from what is hashed here
    (https://docs.vllm.ai, "NixlConnector compatibility"). What differs by role (its own arguments, tensor-parallel size,
    replicas) is left out: changing it must not part the pools. `Push` needs equal tensor-parallel sizes.
    """
    model, transfer, prefill = resolved.model, resolved.transfer, resolved.pools[Role.PREFILL]
    return hash_of(
        {
            "image": resolved.image,
            "version": resolved.version,
            "connector": resolved.connector_image,
            "model": [model.name, model.revision],
            "volume": model.volume.model_dump() if model.volume else None,
            "arguments": resolved.arguments,
            "environment": [dict(variable) for variable in resolved.environment],
            "blockSize": resolved.block_size,
            "protocol": resolved.protocol,
            # Engines with another key do not hear each other, and the exchange writes rank to rank.
            **(
                {"key": asdict(transfer.key) if transfer.key else None, "tensor": prefill.tensor}
                if isinstance(transfer, PushTransfer)
                else {}
            ),
            "backend": resolved.backend,
            "instanceType": prefill.devices.profile.instance_type,
        }
    )
