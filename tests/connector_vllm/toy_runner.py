# SPDX-License-Identifier: Apache-2.0
"""A rank without a model, in the engine environment's own Python. Its KV says which tokens it was computed from.

It runs launched steps later, as a device does: not before their output is asked for. What a step reads must be right then.
"""

import hashlib
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from vllm.v1.outputs import KVConnectorOutput, ModelRunnerOutput

from tandem_connector.contract.types import EngineId
from tandem_connector.vllm.connector import RankHandshake, StepReport
from tandem_connector.vllm.orders import StepReports
from tandem_connector.vllm.worker import WorkerSide

LAYERS, ENTRY, FIRST_WORD, WORDS = 2, 8, 300, 200
LATENT = 576
"""Numbers of 32 bits in a token's vector, where attention is latent (MLA)."""
TOKEN_TAKES = 0.0002
"""Seconds."""


class WrongKvError(Exception):
    """A step read KV that isn't that of its tokens."""


def entries(tokens: list[int], adapter: str = "") -> list[bytes]:
    """The KV of each token: a digest of all tokens up to it, and of the LoRA adapter."""
    digest, found = hashlib.blake2b(adapter.encode(), digest_size=ENTRY), []
    for token in tokens:
        digest.update(token.to_bytes(4, "little"))
        found.append(digest.copy().digest())
    return found


def next_token(tokens: list[int], adapter: str = "") -> int:
    """What the model says after these."""
    return FIRST_WORD + int.from_bytes(entries(tokens, adapter)[-1][:4], "little") % WORDS


@dataclass
class Event:
    """As much of a device's event as is queried."""

    done: bool = False

    def query(self) -> bool:
        return self.done


@dataclass(frozen=True)
class Work:
    """What a step computes for a request."""

    request: str
    before: int
    tokens: int
    blocks: tuple[int, ...]


@dataclass(frozen=True)
class Launch:
    """A step that was launched."""

    work: tuple[Work, ...]
    event: Event
    report: KVConnectorOutput


class ToyRunner:
    """The only rank of an engine. `tells_when`: it records events, as is right where steps run later."""

    def __init__(self, engine: EngineId, blocks: int, block: int, *, tells_when: bool, latent: bool) -> None:
        self._block = block
        self._copies = LATENT * 4 // ENTRY if latent else 1
        self._kv = np.zeros((LAYERS, blocks, block, self._copies * ENTRY), np.uint8)
        self._event = Event()
        self._tokens: dict[str, list[int]] = {}
        self._adapters: dict[str, str] = {}
        self._blocks: dict[str, tuple[int, ...]] = {}
        self._worker = WorkerSide(
            engine,
            0,
            blocks,
            ("UCX",),
            prepare_thread=lambda _: None,
            record_event=lambda: self._event if tells_when else None,
        )
        # As vLLM's runner makes them for such models: blocks, tokens, numbers of a vector.
        vectors = torch.from_numpy(self._kv).view(torch.float32 if latent else torch.uint8)
        self.handshake = RankHandshake(
            self._worker.register({f"layers.{layer}": vectors[layer] for layer in range(LAYERS)})
        )

    def launch(self, output: Any) -> Launch:
        """Begin a scheduled step (`SchedulerOutput`): what vLLM's model runners do until the forward pass is launched."""
        self._worker.before_step(output.kv_connector_metadata.orders)
        work = tuple(self._work(output))
        self._event = Event(done=not work)
        self._worker.after_forward()
        loads = self._worker.finished_loads()
        report = KVConnectorOutput(
            finished_recving={load.request for load in loads},
            invalid_block_ids={block for load in loads for block in load.lacking},
            kv_connector_worker_meta=StepReport(StepReports((self._worker.report(),))),
        )
        return Launch(work, self._event, report)

    def _work(self, output: Any) -> list[Work]:
        begun = []
        for new in output.scheduled_new_reqs:
            self._tokens[new.req_id], self._blocks[new.req_id] = list(new.prompt_token_ids), tuple(new.block_ids[0])
            self._adapters[new.req_id] = new.lora_request.lora_name if new.lora_request is not None else ""
            begun.append((new.req_id, new.num_computed_tokens))
        cached = output.scheduled_cached_reqs
        for name, more, before in zip(cached.req_ids, cached.new_block_ids, cached.num_computed_tokens, strict=True):
            old = () if name in cached.resumed_req_ids else self._blocks[name]
            self._blocks[name] = (*old, *(more[0] if more is not None else ()))
            begun.append((name, before))
        return [Work(name, before, output.num_scheduled_tokens[name], self._blocks[name]) for name, before in begun]

    def run(self, launch: Launch) -> ModelRunnerOutput:
        """The device runs the step.

        Raises:
            WrongKvError: something that it read is wrong.
        """
        time.sleep(TOKEN_TAKES * sum(work.tokens for work in launch.work))
        sampled = [self._compute(work) for work in launch.work]
        launch.event.done = True
        names = [work.request for work in launch.work]
        return ModelRunnerOutput(
            req_ids=names,
            req_id_to_index={name: index for index, name in enumerate(names)},
            sampled_token_ids=sampled,
            kv_connector_output=launch.report,
        )

    def _compute(self, work: Work) -> list[int]:
        tokens, end, adapter = self._tokens[work.request], work.before + work.tokens, self._adapters[work.request]
        for position, once in enumerate(entries(tokens[:end], adapter)):
            entry = once * self._copies
            place = self._kv[:, work.blocks[position // self._block], position % self._block]
            if position >= work.before:
                place[:] = np.frombuffer(entry, np.uint8)
            elif any(layer.tobytes() != entry for layer in place):
                raise WrongKvError(f"{work.request}: at {position} of {work.before}")
        if end < len(tokens):
            return []
        tokens.append(next_token(tokens, adapter))
        return tokens[-1:]

    def close(self) -> None:
        self._worker.close()
