# SPDX-License-Identifier: Apache-2.0
"""A prefill and a decode engine whose steps overlap, in one process of the engine environment's own Python.

vLLM's own schedulers, loop (`EngineCore.step_with_batch_queue`, retold), requests and block pools; the connector's both sides and
NIXL. Only model and device are toys. `overlapping_inside_engine.py MODEL FOLDER OPTION...` prints a line of JSON per turn. Options:

* `without-events`: the connector isn't told when a step has run
* `latent`: the KV is that of latent attention (MLA)
* `other-kv`: prefill's KV has 8 bits, decode's as many as the model
* `adapter`: the conversation has a LoRA adapter; then the same is asked without it, with one that prefill doesn't have, and with one
  that lies elsewhere at prefill
"""

import json
import os
import queue
import random
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Collection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import torch
from vllm.config import KVTransferConfig
from vllm.engine.arg_utils import EngineArgs
from vllm.lora.request import LoRARequest
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256_cbor
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec, MLAAttentionSpec
from vllm.v1.request import Request
from vllm.v1.structured_output import StructuredOutputManager

from tandem_connector.contract.environment import PEERS_FILE, ROLE
from tandem_connector.contract.peers import Address, Parallelism, Peer, PeerTable
from tandem_connector.contract.types import EngineId, EngineState, Generation, Role
from tandem_connector.vllm.settings import HOST_VARIABLE, PORT_VARIABLE
from tests.connector_vllm.toy_runner import FIRST_WORD, LATENT, WORDS, Launch, ToyRunner, next_token

BLOCK, BLOCKS, IN_FLIGHT = 32, 128, 2
TURNS = ((800, 97), (100, 96), (900, 128))
"""New tokens of each prompt, and of its answer. After the first answer, 28 blocks are full to the token."""
POET, CLERK, MOVED = "poet", "clerk", "moved"
"""Adapters: of both, of decode alone, and at another place at each."""
PATIENCE = 28.0
"""Seconds: less than an empty step may sleep."""


class Engine:
    """One of the two."""

    def __init__(self, role: Role, model: str, folder: Path, http_port: int, options: Collection[str]) -> None:
        self.role, self.id = role, EngineId(f"{role.value}-{os.getpid()}")
        self.peers = folder / f"{role.value}.json"
        self._http_port, self._side_port = http_port, random.randrange(10_000, 30_000)
        os.environ |= {
            ROLE: role.value,
            PEERS_FILE: str(self.peers),
            HOST_VARIABLE: "127.0.0.1",
            PORT_VARIABLE: str(self._side_port),
        }
        config = self._config(model, "fp8" if "other-kv" in options and role is Role.PREFILL else "auto")
        kind, size = (MLAAttentionSpec, LATENT) if "latent" in options else (FullAttentionSpec, 64)
        spec = kind(block_size=BLOCK, num_kv_heads=1, head_size=size, dtype=torch.float32)
        groups = [KVCacheGroupSpec(["layers.0", "layers.1"], spec)]
        self.scheduler = AsyncScheduler(
            config, KVCacheConfig(BLOCKS, [], groups), StructuredOutputManager(config), block_size=BLOCK
        )
        self._runner = ToyRunner(
            self.id, BLOCKS, BLOCK, tells_when="without-events" not in options, latent="latent" in options
        )
        self.scheduler.connector.set_xfer_handshake_metadata({0: self._runner.handshake})
        self._flying: deque[tuple[Any, Launch]] = deque()
        self._inbox: queue.SimpleQueue[Request] = queue.SimpleQueue()
        self._waiting: dict[str, queue.SimpleQueue[Any]] = {}

    def _config(self, model: str, kv_cache_dtype: str) -> Any:
        transfer = KVTransferConfig(
            kv_connector="TandemConnector",
            kv_connector_module_path="tandem_connector.vllm.connector",
            kv_role="kv_both",
            engine_id=self.id,
            kv_load_failure_policy="recompute",
            kv_connector_extra_config={"disaggregate_above_tokens": BLOCK},
        )
        config = EngineArgs(
            model=model,
            dtype="float32",
            enforce_eager=True,
            max_num_batched_tokens=512,
            block_size=BLOCK,
            kv_cache_dtype=kv_cache_dtype,
            prefix_caching_hash_algo="sha256_cbor",
            kv_transfer_config=transfer,
        ).create_engine_config()
        # The CPU platform switches it off.
        config.scheduler_config.async_scheduling = True
        assert config.max_concurrent_batches == IN_FLIGHT
        config.cache_config.num_gpu_blocks = BLOCKS
        return config

    def as_peer(self) -> Peer:
        return Peer(
            engine=self.id,
            pod=self.role.value,
            role=self.role,
            state=EngineState.READY,
            address=Address(host="127.0.0.1", http_port=self._http_port, side_channel_port=self._side_port),
            parallelism=Parallelism(tensor=1),
            revision="same",
        )

    def know(self, other: "Engine") -> None:
        fresh = self.peers.with_suffix(".new")
        fresh.write_text(PeerTable.of(Generation(1), (other.as_peer(),)).to_annotation())
        fresh.replace(self.peers)

    def loop(self) -> None:
        try:
            while True:
                while not self._inbox.empty():
                    self.scheduler.add_request(self._inbox.get())
                if self.scheduler.has_requests() or self._flying:
                    self._step()
                else:
                    time.sleep(0.002)
        except Exception:
            traceback.print_exc()
            os._exit(3)

    def _step(self) -> None:
        if self.scheduler.has_requests():
            output = self.scheduler.schedule()
            self._flying.appendleft((output, self._runner.launch(output)))
            if len(self._flying) < IN_FLIGHT and (output.total_num_scheduled_tokens or self.scheduler.has_requests()):
                return
        output, launch = self._flying.pop()
        outputs = self.scheduler.update_from_output(output, self._runner.run(launch))
        for each in (one for several in outputs.values() for one in several.outputs):
            if each.finish_reason is not None:
                self._waiting.pop(each.request_id).put(each.kv_transfer_params)

    def ask(
        self, name: str, ids: list[int], output: int, params: Any = None, adapter: str = ""
    ) -> tuple[list[int], Any]:
        """The answer, and what the connector says with it.

        Raises:
            queue.Empty: it took too long.
        """
        sampling = SamplingParams(max_tokens=output, temperature=0.0, ignore_eos=True)
        sampling.extra_args = {"kv_transfer_params": params} if params else None
        place = f"/{self.role}/{adapter}" if adapter == MOVED else f"/{adapter}"
        request = Request(
            name,
            list(ids),
            sampling,
            None,
            lora_request=LoRARequest(adapter, 1, place) if adapter else None,
            block_hasher=get_request_block_hasher(BLOCK, sha256_cbor),
        )
        answered = self._waiting[name] = queue.SimpleQueue()
        self._inbox.put(request)
        # As the connector itself does where vLLM has an input queue.
        self.scheduler.connector._scheduler._surroundings.queued()
        told = answered.get(timeout=PATIENCE)
        return list(request.output_token_ids), told


def serve(engine: Engine, server: ThreadingHTTPServer) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            adapter = body["model"] if body["model"] in {POET, CLERK, MOVED} else ""
            if adapter == CLERK:
                self.send_error(404)
                return
            name = f"prefill-{self.headers['X-Request-Id']}"
            _, told = engine.ask(name, body["prompt"], body["max_tokens"], body["kv_transfer_params"], adapter)
            answer = json.dumps({"choices": [{"finish_reason": "length"}], "kv_transfer_params": told}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None: ...

    server.RequestHandlerClass = Handler
    threading.Thread(target=server.serve_forever, daemon=True).start()


def say(decode: Engine, name: str, ids: list[int], output: int, adapter: str) -> list[int]:
    answer, told = decode.ask(name, ids, output, adapter=adapter)
    expected = list(ids)
    for _ in range(output):
        expected.append(next_token(expected, adapter))
    print(json.dumps({"prompt": len(ids), "right": ids + answer == expected, **told["tandem"]}), flush=True)
    time.sleep(0.5)
    return answer


def main(model: str, folder: Path, options: Collection[str]) -> None:
    init_none_hash(sha256_cbor)
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    prefill, decode = (Engine(role, model, folder, server.server_address[1], options) for role in Role)
    serve(prefill, server)
    for one, other in ((prefill, decode), (decode, prefill)):
        one.know(other)
        threading.Thread(target=one.loop, daemon=True).start()
    while "other-kv" not in options and not (
        prefill.scheduler.connector._scheduler._conduct.peering.connected
        and decode.scheduler.connector._scheduler._conduct.peering.connected
    ):
        time.sleep(0.05)
    ids: list[int] = []
    chosen = random.Random(1)
    adapter = POET if "adapter" in options else ""
    for turn, (new, output) in enumerate(TURNS, start=1):
        ids += [chosen.randrange(FIRST_WORD, FIRST_WORD + WORDS) for _ in range(new)]
        ids += say(decode, f"turn-{turn}", ids, output, adapter)
    for another in ("", CLERK, MOVED) if adapter else ():
        say(decode, f"with-{another}", ids[:500], 40, another)
    held = [BLOCKS - 1 - each.scheduler.kv_cache_manager.block_pool.get_num_free_blocks() for each in (prefill, decode)]
    print(json.dumps({"held": held}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
