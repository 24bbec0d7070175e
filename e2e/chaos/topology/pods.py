# SPDX-License-Identifier: Apache-2.0
"""The engine pods as the API server tells of them, from their beginning to their end, with the times of this machine's clock."""

import json
import subprocess
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from e2e.chaos.topology.changes import Seen
from e2e.kubectl import Kubectl
from tandem_connector.contract.types import Role
from tandem_operator.api.names import ENGINE_LABEL, ROLE_LABEL
from tandem_operator.plan.revision import ENGINE_CONTAINER

KILLED = 137
"""Exit code of a process that SIGKILL ended: its grace period was over, or there was no memory."""


@dataclass
class Life:
    """One pod's. Times are of the monotonic clock."""

    name: str
    uid: str
    role: Role
    ready: bool = False
    was_ready: bool = False
    deleted: float | None = None
    """When its deletion was told."""
    gone: float | None = None
    """When it existed no more."""
    restarts: int = 0
    exit_code: int | None = None

    @property
    def took(self) -> float | None:
        """Seconds from its deletion until it was gone."""
        return self.gone - self.deleted if self.deleted is not None and self.gone is not None else None

    def told(self, manifest: Mapping[str, Any], now: float) -> None:
        """The API server says this of it."""
        status = manifest.get("status", {})
        if manifest["metadata"].get("deletionTimestamp") and self.deleted is None:
            self.deleted = now
        conditions = status.get("conditions") or ()
        self.ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
        self.was_ready |= self.ready
        for container in status.get("containerStatuses") or ():
            if container["name"] == ENGINE_CONTAINER:
                self.restarts = container["restartCount"]
                if ended := container.get("state", {}).get("terminated"):
                    self.exit_code = ended["exitCode"]


class Pods:
    """Watches them on a thread, as a context. The pods of one resource."""

    def __init__(self, kubectl: Kubectl, resource: str) -> None:
        """Not yet.

        Args:
            kubectl: of their namespace.
            resource: the name of theirs.
        """
        self._command = [
            *(*kubectl.command, "get", "pods", f"--selector={ENGINE_LABEL}={resource}"),
            *("--output=json", "--watch", "--output-watch-events"),
        ]
        self._lives: dict[str, Life] = {}
        self._closing = False
        self._process: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._run, name="pods", daemon=True)

    def __enter__(self) -> "Pods":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing = True
        if self._process is not None:
            self._process.terminate()
        self._thread.join(10.0)

    @property
    def lives(self) -> list[Life]:
        """Of all pods that there were."""
        return list(self._lives.values())

    def present(self) -> list[Life]:
        """Of those that exist."""
        return [life for life in self.lives if life.gone is None]

    def seen(self) -> list[Seen]:
        """Those that exist, as changes are chosen from them."""
        return [Seen(life.name, life.role, life.ready, life.deleted is not None) for life in self.present()]

    def _run(self) -> None:
        while not self._closing:
            with subprocess.Popen(
                self._command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            ) as process:
                self._process = process
                self._read(process)
            time.sleep(0.5)

    def _read(self, process: subprocess.Popen[str]) -> None:
        """Its events, until it ends: a list of those that exist as `ADDED`, and then what changes."""
        assert process.stdout is not None
        unlisted = {life.uid for life in self.present()}
        for line in process.stdout:
            event = json.loads(line)
            if event["type"] != "ADDED":
                self._end(unlisted)
            unlisted.discard(event["object"]["metadata"]["uid"])
            self._told(event)

    def _told(self, event: Mapping[str, Any]) -> None:
        metadata, now = event["object"]["metadata"], time.monotonic()
        uid = metadata["uid"]
        life = self._lives.setdefault(uid, Life(metadata["name"], uid, Role(metadata["labels"][ROLE_LABEL])))
        life.told(event["object"], now)
        if event["type"] == "DELETED":
            self._end({uid})

    def _end(self, uids: set[str]) -> None:
        now = time.monotonic()
        while uids:
            life = self._lives[uids.pop()]
            life.deleted, life.gone, life.ready = life.deleted or now, life.gone or now, False
