# SPDX-License-Identifier: Apache-2.0
"""What vLLM is told about the transfer of KV: its `--kv-transfer-config`, without the engine's id."""

import json
from typing import Any, assert_never

from tandem_operator.plan.resolved import NixlTransfer, PushTransfer, Resolved


def transfer_settings(resolved: Resolved) -> dict[str, Any]:
    """`kv_transfer_config` as vLLM's `KVTransferConfig` takes it."""
    match resolved.transfer:
        case PushTransfer():
            connector = {
                "kv_connector": "TandemConnector",
                "kv_connector_module_path": "tandem_connector.vllm.connector",
            }
        case NixlTransfer():
            connector = {"kv_connector": "NixlConnector"}
        case _:
            assert_never(resolved.transfer)
    return {
        **connector,
        "kv_role": "kv_both",
        # A prompt whose KV does not come is computed, and not refused.
        "kv_load_failure_policy": "recompute",
        "kv_connector_extra_config": {**_extra(resolved.transfer), "backends": [str(resolved.backend)]},
    }


def transfer_arguments(resolved: Resolved) -> tuple[str, ...]:
    """`transfer_settings` as arguments, one for each value, in vLLM's notation for options that are JSON."""
    settings = transfer_settings(resolved)
    extra = settings.pop("kv_connector_extra_config")
    return (
        *(f"--kv-transfer-config.{name}={_text(value)}" for name, value in settings.items()),
        *(f"--kv-transfer-config.kv_connector_extra_config.{_argument(name, value)}" for name, value in extra.items()),
    )


def _extra(transfer: PushTransfer | NixlTransfer) -> dict[str, Any]:
    """`ConnectorSettings` of the connector for `Push`; upstream's for `NixlPull`."""
    if isinstance(transfer, NixlTransfer):
        return {"bidirectional_kv_xfer": True} if transfer.bidirectional else {}
    return {
        "disaggregate_above_tokens": transfer.above_tokens,
        "reverse": str(transfer.reverse),
        "patience": transfer.patience,
        "fetch_min_blocks": transfer.min_blocks,
        "landing_share": transfer.landing_share,
    }


def _argument(name: str, value: Any) -> str:
    if isinstance(value, list):
        return f"{name}+={','.join(value)}"
    return f"{name}={_text(value)}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
