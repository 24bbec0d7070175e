# SPDX-License-Identifier: Apache-2.0
"""The notes that decode sends along with its prefill requests, at the engine that is asked."""

import logging
from collections.abc import Callable, Container, Sequence
from typing import Any

from tandem_connector.contract.prefill import NoteProblem, PrefillNote, PromptName, Seal, read_note
from tandem_connector.contract.types import EngineId, Role
from tandem_connector.exchange.types import BlockHash, Purpose, RequestId, Seconds
from tandem_connector.vllm.metrics import Meter
from tandem_connector.vllm.settings import ConnectorSettings
from tandem_connector.vllm.turns import Source

_log = logging.getLogger(__name__)


class Notes:
    """Of the requests that live."""

    def __init__(
        self, me: EngineId, settings: ConnectorSettings, seal: Callable[[], Seal], meter: Meter, block_size: int
    ) -> None:
        """None yet; `seal` gives the one of now, `meter` counts those that are not used."""
        self._me = me
        self._settings = settings
        self._seal = seal
        self._meter = meter
        self._block_size = block_size
        self._notes: dict[RequestId, PrefillNote] = {}

    def source_of(
        self, request: Any, prompt: Sequence[BlockHash], peers: Container[EngineId], now: Seconds
    ) -> Source | None:
        """Where a request that decode asked for may have blocks from, if its note is good."""
        if self._settings.role is not Role.PREFILL or not prompt:
            return None
        title = PromptName(request.num_prompt_tokens, prompt[-1])
        note = read_note(request.kv_transfer_params, self._seal(), title, self._me, peers)
        match note:
            case NoteProblem():
                self._meter.note_refused(note)
                _log.info("note_not_used request=%s why=%s", request.request_id, note)
            case PrefillNote():
                self._notes[RequestId(request.request_id)] = note
                return Source(
                    note.decode,
                    note.held_tokens // self._block_size,
                    Seconds(now + self._settings.fetch_deadline),
                    Purpose.REVERSE_FETCH,
                    self._settings.fetch_min_blocks,
                )
        return None

    def ended(self, request: RequestId) -> PrefillNote | None:
        """The request is over; its note, if that was good."""
        return self._notes.pop(request, None)
