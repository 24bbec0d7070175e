# SPDX-License-Identifier: Apache-2.0
"""What proves that the watches are alive, also when the cluster is quiet.

A watch that died silently looks like a cluster in which nothing happens. Two facts tell them apart, for every watch on its
own and without further requests or rights:

* *The watch is asked for again.* The API server ends each watch request after the time limit that the request carries. A
  live watch therefore makes a new request at least that often, in a quiet cluster and also while the API server is away.
* *Our own writes come back.* The version of an object that the API server answered to a write must show up in the watch.

A watch for which one of them does not hold for too long is dead, and only a restart of the process brings it back. (A
heartbeat on one watched object, such as the Lease, would prove one watch of five, and nothing at all with a list of
namespaces that does not contain the Lease's.)
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class Stream(NamedTuple):
    """One watch: a kind, in one namespace or (None) everywhere."""

    plural: str
    namespace: str | None


class Watches:
    """Book-keeping about all watches of the process.

    Args:
        expected: the watches that there have to be.
        request_limit: seconds within which a watch must have been asked for again.
        echo_limit: seconds within which a write must have come back.
        clock: seconds, monotonic; the event loop's unless given.
    """

    def __init__(
        self,
        expected: frozenset[Stream],
        *,
        request_limit: float,
        echo_limit: float,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._expected = expected
        self._request_limit = request_limit
        self._echo_limit = echo_limit
        self._clock = clock or asyncio.get_running_loop().time
        self._asked: dict[Stream, float] = {}
        self._latest: dict[Stream, int] = {}
        """Highest version that the watch told of. A watch tells of changes in their order."""
        self._listed: set[Stream] = set()
        """Watches that have begun with a list."""
        self._waiting: dict[Stream, float] = {}
        """When the oldest write was made that has not come back."""

    def asked(self, stream: Stream) -> None:
        """A watch request is being made."""
        self._asked[stream] = self._clock()

    def listed(self, stream: Stream) -> bool:
        """All objects of the watch were listed, of which it then tells; whether it has started over so, and may have missed deletions.

        (What is no watch that there has to be is ignored.)
        """
        if stream not in self._expected:
            return False
        if stream in self._listed:
            return True
        self._listed.add(stream)
        return False

    def heard(self, plural: str, metadata: Mapping[str, Any]) -> None:
        """The watch delivered an object of this kind."""
        stream = self._stream(plural, metadata)
        self._waiting.pop(stream, None)
        self._latest[stream] = max(self._latest.get(stream, 0), _version(metadata))

    def wrote(self, plural: str, metadata: Mapping[str, Any]) -> None:
        """The API server answered a write with this object. Kinds that are not watched are ignored."""
        stream = self._stream(plural, metadata)
        # After a write that changed nothing, or that the watch told of before the answer came, nothing is awaited.
        if stream in self._expected and self._latest.get(stream, 0) < _version(metadata):
            self._waiting.setdefault(stream, self._clock())

    def missing(self) -> list[Stream]:
        """Watches that were never asked for: the process is still starting."""
        return sorted(self._expected - self._asked.keys(), key=str)

    def dead(self) -> list[str]:
        """Why watches must be taken for dead; empty when all is well. Watches that never started are not mentioned."""
        now = self._clock()
        reasons = [
            f"the watch of {_text(stream)} was not asked for again for {now - at:.0f} s"
            for stream, at in self._asked.items()
            if now - at > self._request_limit
        ]
        reasons += [
            f"the watch of {_text(stream)} did not tell of a write {now - at:.0f} s ago"
            for stream, at in self._waiting.items()
            if now - at > self._echo_limit
        ]
        return sorted(reasons)

    def _stream(self, plural: str, metadata: Mapping[str, Any]) -> Stream:
        everywhere = Stream(plural, None)
        return everywhere if everywhere in self._expected else Stream(plural, metadata.get("namespace"))


def _version(metadata: Mapping[str, Any]) -> int:
    # Resource versions of one kind are numbers that grow: https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions
    return int(metadata["resourceVersion"])


def _text(stream: Stream) -> str:
    return stream.plural if stream.namespace is None else f"{stream.plural} in {stream.namespace}"
