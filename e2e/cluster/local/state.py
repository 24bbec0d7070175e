# SPDX-License-Identifier: Apache-2.0
"""The state folder as a whole: whose it is, who may change it now, and what cluster it holds."""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path
from typing import Self

from e2e.cluster.interface import ClusterError
from e2e.cluster.local.endpoints import Endpoints
from e2e.cluster.local.layout import Layout

_SIGN = "this-is-a-tandem-cluster"


class Profile(Enum):
    """What a local cluster consists of."""

    CONTROL_PLANE = "control-plane"
    """API server, controllers and scheduler: objects live, nothing runs. Needs no root; many fit on a machine."""
    NODE = "node"
    """Also a node that runs pods. Needs root; one fits on a machine."""


@dataclass(frozen=True)
class Record:
    """What the cluster in a state folder is. Written when it was complete for the first time."""

    profile: Profile
    binary: str
    endpoints: Endpoints
    programs: list[str]
    """The names of all its processes."""

    @classmethod
    def read(cls, layout: Layout) -> Self | None:
        """The record; None where no cluster was ever complete."""
        try:
            fields = json.loads(layout.record.read_text())
            return cls(
                Profile(fields["profile"]), fields["binary"], Endpoints(**fields["endpoints"]), fields["programs"]
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, layout: Layout) -> None:
        fields = asdict(self) | {"profile": self.profile.value}
        layout.record.write_text(json.dumps(fields, indent=2) + "\n")


def make(root: Path) -> None:
    """Make the state folder.

    Raises:
        ClusterError: There is a folder with something else in it.
    """
    if root.exists() and any(root.iterdir()):
        raise ClusterError(f"{root} has other files in it: give an empty or a new folder for the cluster's state")
    root.mkdir(parents=True, exist_ok=True)
    (root / _SIGN).touch()


def remove(root: Path) -> None:
    """Remove the state folder if it is one; leave any other folder alone.

    Raises:
        ClusterError: It belongs to another user.
    """
    if (root / _SIGN).exists():
        try:
            shutil.rmtree(root)
        except PermissionError as error:
            raise ClusterError(f"{error.filename} belongs to another user: whoever ran `up` must run this") from error


@contextmanager
def only_one(root: Path) -> Iterator[None]:
    """Wait until nobody else brings this cluster up or down, and keep others out meanwhile.

    The lock is a file beside the state folder, which comes and goes; it is removed with the last user of the folder.
    """
    root.parent.mkdir(parents=True, exist_ok=True)
    path = root.with_name(f".{root.name}.lock")
    while True:
        with path.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if not _is_still(path, file.fileno()):
                continue  # Whoever held it removed it: the lock is now on a file that nobody else would open.
            try:
                yield
            finally:
                if not root.exists():
                    path.unlink()
            return


def _is_still(path: Path, descriptor: int) -> bool:
    try:
        return path.stat().st_ino == os.fstat(descriptor).st_ino
    except FileNotFoundError:
        return False
