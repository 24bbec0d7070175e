# SPDX-License-Identifier: Apache-2.0
"""Names, ports and paths that the operator sets on an engine pod and the engine reads."""

from typing import Final

POD_UID: Final = "TANDEM_POD_UID"
"""The pod's UID, from the downward API."""
ENGINE_ID: Final = "TANDEM_ENGINE_ID"
"""The engine id, made by the launch script from the pod's UID and the process's start."""
ROLE: Final = "TANDEM_ROLE"
"""`prefill` or `decode`."""
PEERS_FILE: Final = "TANDEM_PEERS_FILE"
"""Path of the peer table, a downward-API file made from the annotation `tandem.dev/peers`."""
KEYS_FILE: Final = "TANDEM_KEYS_FILE"
"""Path of the resource's key (`contract.keys`), from a Secret. Not set: the exchange listens on loopback only."""
API_KEY: Final = "VLLM_API_KEY"
"""vLLM's own name for the key that its server asks clients for, and decode gives when it asks prefill."""
STATUS_FILE: Final = "TANDEM_STATUS_FILE"
"""Path of a file in which the engine says how it is, for programs in its container: `probe.py` and `drain.py`. Not set: none."""
JOURNAL: Final = "TANDEM_JOURNAL"
"""Path of a debug log of the exchange, up to 512 MiB. Not set: none. The operator never sets it; a resource's `engine.env` may."""

DATA_PARALLEL: Final = "TANDEM_DATA_PARALLEL"
"""How many data-parallel ranks the engine's server has, for programs in its container. Not set: one.

Rank r listens at the side channel's port + r. Its status file's name ends in `RANK_SUFFIX` and r; that of rank 0 doesn't."""
RANK_SUFFIX: Final = ".dp"

PEERS_DIRECTORY: Final = "/etc/tandem/peers"
PEERS_PATH: Final = f"{PEERS_DIRECTORY}/peers.json"
KEYS_DIRECTORY: Final = "/etc/tandem/keys"
KEYS_PATH: Final = f"{KEYS_DIRECTORY}/exchange.json"
CONNECTOR_PATH: Final = "/opt/tandem/connector"
"""Where the init container puts the connector's package; on `PYTHONPATH` of the engine."""

DRAIN_MARK: Final = ".drain"
"""What is added to the status file's path gives the file by which a preStop hook tells the engine that it is to end."""
STATUS_PATH: Final = "/dev/shm/tandem-status.json"  # noqa: S108 - the pod's own: a mounted folder
"""Where every engine can write, whatever its user and its image."""

NO_NIXL: Final = (
    "the image has no NIXL: its Python doesn't find the package `nixl`; "
    "use an image that has it, for example vllm/vllm-openai"
)
"""What a container says that ends because of it."""

HTTP_PORT: Final = 8000
SIDE_CHANNEL_PORT: Final = 5600
"""First port of NIXL's handshake listener; vLLM adds the data-parallel rank."""
EXCHANGE_PORT: Final = 5601
"""First port of the connector's own messages between engines; a data-parallel rank's is as many above."""
