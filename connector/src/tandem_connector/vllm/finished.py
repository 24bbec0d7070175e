# SPDX-License-Identifier: Apache-2.0
"""The waits that have ended, on their way to vLLM: with the next step through the ranks, or with the output of the last one."""

from tandem_connector.exchange.types import RequestId
from tandem_connector.vllm.orders import FinishedLoad


class FinishedLoads:
    """Scheduler's thread."""

    def __init__(self) -> None:
        self._loads: list[FinishedLoad] = []

    def add(self, load: FinishedLoad) -> None:
        """A request's wait has ended."""
        self._loads.append(load)

    def take(self) -> tuple[FinishedLoad, ...]:
        """Those that ended since the last call."""
        loads, self._loads = tuple(self._loads), []
        return loads

    def take_whole(self) -> frozenset[RequestId]:
        """The requests among them that lack nothing: vLLM need not be told through the ranks, a step later."""
        whole = frozenset(load.request for load in self._loads if not load.lacking)
        self._loads = [load for load in self._loads if load.lacking]
        return whole

    def __bool__(self) -> bool:
        return bool(self._loads)
