# SPDX-License-Identifier: Apache-2.0
"""The key by which a resource's engines know each other: its Secret, and how an engine gets it.

Planning never sees a key, and neither does the operator once it is made: it may create Secrets and not read them.
"""

from typing import Any, Final

from tandem_connector.contract import environment as contract
from tandem_operator.api.names import exchange_secret_name
from tandem_operator.plan.children import ENGINE_APPLICATION, labels, metadata
from tandem_operator.plan.resolved import KeySource, PushTransfer, Resolved
from tandem_operator.plan.revision import hash_of
from tandem_operator.plan.types import Manifest, WantedKey

KEY_FILE: Final = contract.KEYS_PATH.removeprefix(f"{contract.KEYS_DIRECTORY}/")
_VOLUME: Final = "keys"
_COMPONENT: Final = "exchange"
_OWNER_ONLY: Final = 0o400


def wanted_key(resolved: Resolved) -> WantedKey | None:
    """The Secret that engines mount; None without `Push`."""
    if not isinstance(resolved.transfer, PushTransfer):
        return None
    source = _source(resolved, resolved.transfer)
    if resolved.transfer.key is not None:
        about = {"name": source.secret, "namespace": resolved.namespace}
        return WantedKey({"apiVersion": "v1", "kind": "Secret", "metadata": about}, source.entry, generated=False)
    return WantedKey(_secret(resolved, source.secret), source.entry, generated=True)


def key_mounts(resolved: Resolved) -> list[dict[str, Any]]:
    """For the engine's container."""
    if not isinstance(resolved.transfer, PushTransfer):
        return []
    return [{"name": _VOLUME, "mountPath": contract.KEYS_DIRECTORY, "readOnly": True}]


def key_volumes(resolved: Resolved) -> list[dict[str, Any]]:
    """For the engine's pod."""
    if not isinstance(resolved.transfer, PushTransfer):
        return []
    source = _source(resolved, resolved.transfer)
    items = [{"key": source.entry, "path": KEY_FILE}]
    return [
        {"name": _VOLUME, "secret": {"secretName": source.secret, "items": items, "defaultMode": _OWNER_ONLY}},
    ]


def key_variables(resolved: Resolved) -> list[dict[str, Any]]:
    """For the engine's container."""
    if not isinstance(resolved.transfer, PushTransfer):
        return []
    return [{"name": contract.KEYS_FILE, "value": contract.KEYS_PATH}]


def _source(resolved: Resolved, transfer: PushTransfer) -> KeySource:
    # Named after the resource's UID, so that a Secret which a former resource of this name left, and which the garbage
    # collector is about to remove, is never taken for this one's: half of the engines would start with either key.
    own = KeySource(exchange_secret_name(resolved.name, hash_of(resolved.uid)), KEY_FILE)
    return transfer.key or own


def _secret(resolved: Resolved, name: str) -> Manifest:
    """The Secret without its data. It isn't immutable: engines take up another key in place, and a kubelet doesn't refresh those."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(resolved, name, labels(resolved.name, _COMPONENT, ENGINE_APPLICATION)),
        "type": "Opaque",
    }
