# SPDX-License-Identifier: Apache-2.0
"""What the watches told that no reading shows yet: only that is a reason to look at a resource again."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Generic

from tandem_operator.kube.queue import Key


class News(Generic[Key]):
    """Compares what the watches tell with what was read and written.

    A look at a resource reads its objects live, and writes some of them. Each write comes back by a watch, and so do changes that the
    reading has shown already. Looking again because of these would double the work, and find nothing to do.

    An event is no news when its objects were read in a later version, or when it shows a write of ours, whose answer was read.
    Versions of one kind are numbers that grow (see `kube/watches.py`). What is written by another between our reading and our
    writing has an event of its own.
    """

    def __init__(self) -> None:
        self.epoch = 0
        """Grows with each watch that started over: what was read before it may lack deletions that no event tells of."""
        self._read: dict[Key, dict[str, int]] = defaultdict(dict)
        """The version in which objects of a kind were last read."""
        self._unread: dict[str, set[int]] = {}
        """By UID: versions that were told of, and are neither read nor written by us."""
        self._subjects: dict[str, tuple[Key, str]] = {}
        """Of those: the resource and the kind."""
        self._uids: dict[Key, set[str]] = defaultdict(set)
        self._written: dict[str, int] = {}
        """By UID: the version that our last write made."""

    def heard(self, key: Key, plural: str, change: str | None, metadata: Mapping[str, Any]) -> bool:
        """A watch told of an object of the resource `key`; whether that is news.

        Args:
            key: names the resource.
            plural: the object's kind.
            change: `ADDED`, `MODIFIED`, `DELETED`, or None for an object that was listed.
            metadata: the object's.
        """
        uid, version = metadata["uid"], int(metadata["resourceVersion"])
        written = self._written.pop(uid, None) if change == "DELETED" else self._written.get(uid)
        if version == written or version <= self._read[key].get(plural, 0):
            return False
        self._unread.setdefault(uid, set()).add(version)
        self._subjects[uid] = (key, plural)
        self._uids[key].add(uid)
        return True

    def wrote(self, metadata: Mapping[str, Any]) -> None:
        """The API server answered a write of ours with this object."""
        uid, version = metadata["uid"], int(metadata["resourceVersion"])
        self._written[uid] = version
        if uid in self._unread:
            self._drop(uid, {version})

    def read(self, key: Key, plural: str, version: str) -> None:
        """All objects of a kind were read for the resource, or itself, as they were in this version."""
        seen = int(version)
        self._read[key][plural] = seen
        for uid in tuple(self._uids[key]):
            if self._subjects[uid][1] == plural:
                self._drop(uid, {each for each in self._unread[uid] if each <= seen})

    def of(self, key: Key) -> bool:
        """Whether there is news of any of the resource's objects."""
        return bool(self._uids.get(key))

    def about(self, key: Key, plural: str) -> bool:
        """Whether there is news of its objects of this kind."""
        return any(self._subjects[uid][1] == plural for uid in self._uids.get(key, ()))

    def start_over(self) -> None:
        """A watch has lost its place: what it tells from now on may leave out deletions."""
        self.epoch += 1
        self._written.clear()

    def forget(self, key: Key) -> None:
        """The resource is gone."""
        self._read.pop(key, None)
        for uid in self._uids.pop(key, ()):
            del self._unread[uid], self._subjects[uid]

    def _drop(self, uid: str, versions: set[int]) -> None:
        self._unread[uid] -= versions
        if not self._unread[uid]:
            key, _ = self._subjects.pop(uid)
            del self._unread[uid]
            self._uids[key].discard(uid)
