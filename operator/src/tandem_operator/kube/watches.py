# SPDX-License-Identifier: Apache-2.0
"""What proves that the watches are alive, also when the cluster is quiet.

A watch that died silently looks like a cluster in which nothing happens. Two facts tell them apart, for every watch on its own and
without further requests or rights:

* *The watch is asked for again.* The API server ends each watch request after the time limit that the request carries. A live
  watch therefore makes a new request at least that often, in a quiet cluster and also while the API server is away.
* *Our own writes come back.* What the operator changes must show up in the watch of that kind.

A watch for which one of them does not hold for too long is dead, and only a restart of the process brings it back. (A heartbeat on one
watched object, such as the Lease, would prove one watch of five, and nothing at all with a list of namespaces that
does not contain the Lease's.)
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple


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
        self._heard: dict[Stream, float] = {}
        self._waiting: dict[Stream, float] = {}
        """When the oldest write was made that has not come back."""
        self._everywhere = any(stream.namespace is None and stream.plural != "nodes" for stream in expected)

    def stream(self, plural: str, namespace: str | None) -> Stream:
        """The watch that an object of this kind in this namespace is seen by."""
        return Stream(plural, None if self._everywhere else namespace)

    def asked(self, stream: Stream) -> None:
        """A watch request is being made."""
        self._asked[stream] = self._clock()

    def heard(self, stream: Stream) -> None:
        """The watch delivered something."""
        self._heard[stream] = self._clock()
        self._waiting.pop(stream, None)

    def now(self) -> float:
        """The time, to be taken before a write and given to `wrote` after it."""
        return self._clock()

    def wrote(self, plural: str, namespace: str | None, since: float) -> None:
        """A write that was begun at `since` changed an object. Kinds that are not watched are ignored."""
        stream = self.stream(plural, namespace)
        # The watch may have been faster than the response to the write.
        if stream in self._expected and self._heard.get(stream, float("-inf")) < since:
            self._waiting.setdefault(stream, since)

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


def _text(stream: Stream) -> str:
    return stream.plural if stream.namespace is None else f"{stream.plural} in {stream.namespace}"
