# SPDX-License-Identifier: Apache-2.0
"""Over what KV goes, as far as the engine itself can tell."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

DEVICES_FOLDER: Final = Path("/dev/infiniband")
_LIBFABRIC: Final = "LIBFABRIC"


@dataclass(frozen=True, slots=True)
class Fabric:
    """What one rank's NIXL agent uses."""

    backend: str
    """NIXL's, of which an agent exists; several are joined by `+`."""
    provider: str
    """With LIBFABRIC: what `FI_PROVIDER` pins. Where it is empty libfabric may take TCP, and NIXL's API doesn't say which it took."""
    devices: int
    """RDMA devices that the container was given: `uverbs` files. (`/sys/class/infiniband` shows all of the node's.)"""


def fabric_of(backends: Sequence[str], environment: Mapping[str, str], devices_folder: Path = DEVICES_FOLDER) -> Fabric:
    """What an agent with these backends uses, in a process with this environment."""
    return Fabric(
        backend="+".join(sorted(backends)),
        provider=environment.get("FI_PROVIDER", "") if _LIBFABRIC in backends else "",
        devices=len(list(devices_folder.glob("uverbs*"))),
    )
