# SPDX-License-Identifier: Apache-2.0
"""The engine's process: requests on their way into it, outputs on their way out. Read against vLLM 0.32.0.

* `EngineCoreProc.input_queue` and `.is_running` (`v1/engine/core.py`), `EngineCoreRequestType.ADD` and `.WAKEUP`
  (`v1/engine/__init__.py`): to see a request before the scheduler does, to wake an idle engine, and to see that it was told to end.
* `EngineCoreProc.output_queue` (`v1/engine/core.py`), `EngineCoreOutputs.outputs` and `EngineCoreOutput` (`v1/engine/__init__.py`):
  `kv_transfer_params` is set where the scheduler ends a request, and `OutputProcessor.process_outputs`
  (`v1/engine/output_processor.py`) makes the response of whatever output it ends a request with.
"""

import queue
from collections.abc import Callable
from typing import Any, TypeAlias

from vllm.v1.engine import EngineCoreOutputs, EngineCoreRequestType

from tandem_connector.vllm.callers import caller_with

Params: TypeAlias = dict[str, object]


class _Tap(queue.Queue[tuple[Any, Any]]):
    """The engine's input queue, with a look at what is put into it."""

    def __init__(self, inner: "queue.Queue[tuple[Any, Any]]", arrived: Callable[[Any], None], put: Callable[[], None]):
        super().__init__()
        self._arrived = arrived
        self._told = put
        while not inner.empty():
            self.put_nowait(inner.get_nowait())

    def put_nowait(self, item: tuple[Any, Any]) -> None:
        """Put, after telling of a new request; called on vLLM's input thread."""
        if item[0] == EngineCoreRequestType.ADD:
            self._arrived(item[1][0])
        super().put_nowait(item)
        self._told()


class _OutputTap(queue.Queue[Any]):
    """The engine's output queue, where an output that may be the last one gets what the response is to say."""

    def __init__(self, params_of: Callable[[str], Params | None]) -> None:
        super().__init__()
        self._params_of = params_of

    def put_nowait(self, item: Any) -> None:
        """Put; called on the scheduler's thread for the outputs of a step, and on others for what is none."""
        if isinstance(item, tuple) and isinstance(item[1], EngineCoreOutputs):
            for output in item[1].outputs:
                if output.finish_reason is None:
                    output.kv_transfer_params = self._params_of(output.request_id)
        super().put_nowait(item)


class EngineProcess:
    """The process that runs the scheduler, by its queues.

    There is none when vLLM runs inside its caller's process (`LLM` without processes).
    """

    def __init__(self) -> None:
        """Find it. To be called while `EngineCoreProc.__init__` runs: it has no other way to it than the call stack."""
        self._core = caller_with("input_queue", "process_input_sockets")

    @property
    def found(self) -> bool:
        """Whether there is one."""
        return self._core is not None

    @property
    def ends(self) -> bool:
        """It was told to end, and takes no request any more."""
        return self._core is not None and not self._core.is_running()

    def watch(self, arrived: Callable[[Any], None], put: Callable[[], None]) -> None:
        """Have `arrived` told of each new `Request`, on vLLM's input thread, and then `put` of everything that is put."""
        if self._core is not None:
            self._core.input_queue = _Tap(self._core.input_queue, arrived, put)

    def watch_outputs(self, params_of: Callable[[str], Params | None]) -> None:
        """Have `params_of` say what the response is to carry if a request's answer ends here, on the scheduler's thread.

        It is asked with the request's id at each output that the scheduler doesn't end the request with; None: nothing.
        """
        if self._core is not None:
            self._core.output_queue = _OutputTap(params_of)

    def wake(self) -> None:
        """Make an idle engine look whether there is work; from any thread."""
        if self._core is not None:
            self._core.input_queue.put_nowait((EngineCoreRequestType.WAKEUP, None))
