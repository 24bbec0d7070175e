# SPDX-License-Identifier: Apache-2.0
"""Checks of what is used of vLLM, run by the engine environment's own Python: `test_adapter` starts it.

Each check is a function without arguments, here, in `shapes_inside_engine.py` or `metrics_inside_engine.py`;
`python inside_engine.py NAME...` runs them in this order, and says of each whether it passed. The last two break what they touch.
"""

import queue
import sys
import traceback
from dataclasses import replace
from typing import Any

import msgspec
import vllm
from vllm.lora.request import LoRARequest
from vllm.multimodal.inputs import MultiModalFeatureSpec, PlaceholderRange
from vllm.sampling_params import RequestOutputKind, SamplingParams
from vllm.utils.hashing import get_hash_fn_by_name
from vllm.v1.core.block_pool import BlockPool
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, hash_block_tokens, init_none_hash
from vllm.v1.engine import EngineCoreOutput, EngineCoreOutputs, EngineCoreRequestType, FinishReason
from vllm.v1.request import Request, RequestStatus

from tandem_connector.asking.types import Obstacle
from tandem_connector.exchange.types import BlockHash, Derivation, OfferedRun
from tandem_connector.vllm.adapter import (
    EnginePool,
    VersionError,
    arrival_of,
    check_version,
    computed_tokens,
    is_worth_offering,
    may_end_by_its_text,
)
from tandem_connector.vllm.engine_process import EngineProcess
from tests.connector_vllm import metrics_inside_engine, shapes_inside_engine

SIZE = 4
NAME, OTHER = BlockHash(b"n" * 32), BlockHash(b"o" * 32)


def pool(blocks: int = 9, share: float = 0.5, *, publishes: bool = False) -> tuple[BlockPool, EnginePool]:
    """Eight blocks that can be used: vLLM keeps one for itself."""
    inner = BlockPool(
        num_gpu_blocks=blocks, enable_caching=True, hash_block_size=SIZE, enable_kv_cache_events=publishes
    )
    return inner, EnginePool(inner, SIZE, share, "sha256_cbor")


def a_block_is_found_by_the_name_it_is_given() -> None:
    _, ours = pool()
    (block,) = ours.take(1) or ()
    assert ours.lookup(NAME) is None
    assert ours.commit(NAME, block, 0, None)
    assert ours.lookup(NAME) == block
    assert ours.prefix([NAME, OTHER, NAME]) == 1


def a_name_is_given_once() -> None:
    _, ours = pool()
    one, other = ours.take(2) or ()
    assert ours.commit(NAME, one, 0, None)
    assert not ours.commit(NAME, other, 0, None)
    assert ours.lookup(NAME) == one


def references_are_vllms_own() -> None:
    inner, ours = pool()
    (block,) = ours.take(1) or ()
    ours.commit(NAME, block, 0, None)
    ours.pin([block])
    ours.unpin([block])
    assert inner.blocks[block].ref_cnt == 1
    assert not inner.reset_prefix_cache()
    ours.unpin([block])
    assert ours.free_blocks == 8
    assert ours.lookup(NAME) == block
    assert inner.reset_prefix_cache()
    assert ours.lookup(NAME) is None


def a_cached_block_that_is_referenced_is_not_evicted() -> None:
    _, ours = pool()
    (block,) = ours.take(1) or ()
    ours.commit(NAME, block, 0, None)
    ours.unpin([block])
    ours.pin([block])
    ours.take(7)
    assert ours.lookup(NAME) == block
    assert ours.take(1) is None


def the_first_block_that_is_given_back_is_reused_first() -> None:
    _, ours = pool()
    one, other = ours.take(2) or ()
    ours.commit(NAME, one, 0, None)
    ours.commit(OTHER, other, 1, None)
    ours.unpin([other, one])
    ours.take(7)
    assert ours.lookup(NAME) == one
    assert ours.lookup(OTHER) is None


def room_is_a_share_of_what_is_free() -> None:
    _, ours = pool(share=0.25)
    assert ours.room(0) == 2
    ours.take(1)
    assert ours.room(1) == 1
    ours.take(1)
    assert ours.room(2) == 0
    ours.take(2)
    assert ours.room(0) == 1
    assert ours.room(2) == 0


def the_pools_reset_is_told_before_it_happens() -> None:
    inner, ours = pool()
    blocks = ours.take(2) or ()
    ours.before_reset(lambda: ours.unpin(blocks))
    assert inner.reset_prefix_cache()


def what_is_cached_is_told_most_recently_used_first_and_in_its_order() -> None:
    _, ours = pool()
    assert ours.cached() == []
    for chain, positions in ((b"a", (0, 1, 2)), (b"b", (0, 1))):
        blocks = ours.take(len(positions)) or ()
        for position, block in zip(positions, blocks, strict=True):
            ours.commit(block_name(chain, position), block, position, None)
        ours.unpin(blocks[::-1])
    both = [
        OfferedRun(0, (block_name(b"b", 0), block_name(b"b", 1))),
        OfferedRun(0, tuple(block_name(b"a", n) for n in range(3))),
    ]
    assert ours.cached() == both
    pinned = ours.lookup(block_name(b"a", 1))
    assert pinned is not None
    ours.pin([pinned])
    assert ours.cached() == [both[0], OfferedRun(0, (block_name(b"a", 0),)), OfferedRun(2, (block_name(b"a", 2),))]
    ours.unpin([pinned])
    assert ours.cached()[0] == OfferedRun(1, (block_name(b"a", 1),))


def block_name(chain: bytes, position: int) -> BlockHash:
    return BlockHash(chain * 31 + bytes([position]))


def request(tokens: int, **more: object) -> Request:
    init_none_hash(hash_of)
    return Request(
        "r",
        list(range(tokens)),
        more.pop("sampling_params", SamplingParams(max_tokens=8)),
        None,
        block_hasher=get_request_block_hasher(SIZE, hash_of),
        **more,
    )


def hash_of(value: object) -> bytes:
    return repr(value).encode()[-32:].rjust(32)


def hashed(tokens: int, **more: object) -> Request:
    """A request with names as engines give them."""
    sha256 = get_hash_fn_by_name("sha256_cbor")
    init_none_hash(sha256)
    sampling = SamplingParams(max_tokens=8)
    return Request(
        "r", list(range(tokens)), sampling, None, block_hasher=get_request_block_hasher(SIZE, sha256), **more
    )


def computed(one: Request) -> list[object]:
    """The events of a pool that computes the request, block by block."""
    inner, _ = pool(publishes=True)
    blocks = inner.get_new_blocks(len(one.block_hashes))
    for index in range(len(blocks)):
        inner.cache_full_blocks(one, blocks, index, index + 1, SIZE, 0)
    return list(inner.take_events())


def landed(one: Request) -> list[object]:
    """The events of a pool into which a peer writes what it has computed of the request."""
    _, theirs = pool()
    theirs.learn(one, 0, len(one.block_hashes))
    derivations = theirs.derivations(one.block_hashes) or ()
    inner, ours = pool(publishes=True)
    ours.learn(hashed(1, lora_request=one.lora_request), 0, 0)
    blocks = ours.take(len(derivations)) or ()
    for position, derivation in enumerate(derivations):
        ours.commit(BlockHash(one.block_hashes[position]), blocks[position], position, derivation)
    return list(inner.take_events())


def an_image(offset: int, length: int) -> MultiModalFeatureSpec:
    return MultiModalFeatureSpec(None, "image", f"image-{offset}", PlaceholderRange(offset=offset, length=length))


def a_block_that_lands_is_announced_as_one_that_is_computed() -> None:
    lora = LoRARequest("adapter", 7, "/nowhere")
    for one in (
        hashed(14),
        hashed(14, cache_salt="s"),
        hashed(14, cache_salt="s", lora_request=lora),
        hashed(22, mm_features=[an_image(2, 3), an_image(6, 9)]),
    ):
        assert len(computed(one)) == len(one.block_hashes) >= 3
        assert landed(one) == computed(one)


def a_block_is_not_announced_with_what_its_name_is_not_derived_from() -> None:
    one = hashed(9)
    _, theirs = pool()
    theirs.learn(one, 0, 2)
    (first, second) = theirs.derivations(one.block_hashes) or ()
    inner, ours = pool(publishes=True)
    (block,) = ours.take(1) or ()
    for wrong in (
        first,
        replace(second, tokens=(0, 0, 0, 0)),
        replace(second, keys=b"\xc1"),
        replace(second, parent=None),
    ):
        assert ours.commit(BlockHash(one.block_hashes[1]), block, 1, wrong)
        assert inner.take_events() == []
        inner._maybe_evict_cached_block(inner.blocks[block])
        inner.take_events()


def a_name_that_is_derived_from_no_keys_of_vllms_is_not_announced() -> None:
    sha256 = get_hash_fn_by_name("sha256_cbor")
    inner, ours = pool(publishes=True)
    for keys in (((),), (("lora",),), ((1, 2),), (("mm", 1.5),)):
        name = BlockHash(hash_block_tokens(sha256, None, (1, 2, 3, 4), keys))
        (block,) = ours.take(1) or ()
        assert ours.commit(name, block, 0, Derivation(None, (1, 2, 3, 4), msgspec.msgpack.encode(keys)))
    assert inner.take_events() == []


def a_block_that_is_there_already_is_not_announced_again() -> None:
    one = hashed(5)
    inner, ours = pool(publishes=True)
    ours.learn(one, 0, 1)
    (derivation,) = ours.derivations(one.block_hashes) or ()
    for block in ours.take(2) or ():
        ours.commit(BlockHash(one.block_hashes[0]), block, 0, derivation)
    assert len(inner.take_events()) == 1


def an_arrival_has_the_prompts_tokens_and_names() -> None:
    arrival = arrival_of(request(10, cache_salt="s", priority=3, trace_headers={"traceparent": "t"}), SIZE)
    assert (arrival.request, arrival.prompt, len(arrival.hashes)) == ("r", list(range(10)), 2)
    assert (arrival.salt, arrival.priority, arrival.trace) == ("s", 3, {"traceparent": "t"})
    assert arrival.obstacles == frozenset()
    assert arrival.lora is None


def tokens_of_a_step_in_flight_are_not_computed() -> None:
    ended = request(8)
    ended.num_computed_tokens = 9
    assert computed_tokens(ended) == 9
    ended.num_output_placeholders = 1
    assert computed_tokens(ended) == 8


def salt_and_lora_change_the_names() -> None:
    lora = LoRARequest("adapter", 1, "/nowhere")
    plain, salted, adapted = (
        arrival_of(each, SIZE) for each in (request(8), request(8, cache_salt="s"), request(8, lora_request=lora))
    )
    assert adapted.lora == "adapter"
    assert len({plain.hashes, salted.hashes, adapted.hashes}) == 3


def one_adapter_at_two_places_has_two_names() -> None:
    here, there = (request(8, lora_request=LoRARequest("adapter", 1, path)) for path in ("/here", "/there"))
    assert arrival_of(here, SIZE).hashes != arrival_of(there, SIZE).hashes


def what_prefill_cannot_compute_is_an_obstacle() -> None:
    logprobs = request(8, sampling_params=SamplingParams(prompt_logprobs=1))
    assert Obstacle.PROMPT_LOGPROBS in arrival_of(logprobs, SIZE).obstacles
    assert Obstacle.SKIPS_CACHE in arrival_of(logprobs, SIZE).obstacles
    assert arrival_of(request(8, resumable=True), SIZE).obstacles == {Obstacle.GROWING_PROMPT}


def finished(status: RequestStatus, output: int) -> Request:
    ended = request(8)
    ended.append_output_token_ids([5] * output)
    ended.status = status
    return ended


def an_answer_is_worth_offering_also_when_a_stop_string_ended_it() -> None:
    assert is_worth_offering(finished(RequestStatus.FINISHED_STOPPED, 3))
    assert is_worth_offering(finished(RequestStatus.FINISHED_LENGTH_CAPPED, 3))
    assert is_worth_offering(finished(RequestStatus.FINISHED_ABORTED, 3))


def what_has_failed_or_was_given_up_before_its_answer_is_not_worth_offering() -> None:
    assert not is_worth_offering(finished(RequestStatus.FINISHED_ABORTED, 0))
    assert not is_worth_offering(finished(RequestStatus.FINISHED_ERROR, 3))
    assert not is_worth_offering(finished(RequestStatus.FINISHED_IGNORED, 0))


def the_engines_input_is_found_watched_and_woken() -> None:
    seen: list[object] = []
    put: list[int] = []

    class Core:
        def __init__(self) -> None:
            self.input_queue: queue.Queue[tuple[Any, object]] = queue.Queue()
            self.input_queue.put_nowait((EngineCoreRequestType.UTILITY, "before"))
            self.running = True
            self.input = EngineProcess()

        def process_input_sockets(self) -> None: ...

        def is_running(self) -> bool:
            return self.running

    core = Core()
    core.input.watch(seen.append, lambda: put.append(1))
    core.input_queue.put_nowait((EngineCoreRequestType.ADD, ("request", 0)))
    core.input.wake()
    assert core.input.found
    assert seen == ["request"]
    assert [core.input_queue.get_nowait()[0].name for _ in range(3)] == ["UTILITY", "ADD", "WAKEUP"]
    assert len(put) >= 2
    assert not core.input.ends
    core.running = False
    assert core.input.ends


def an_output_that_may_be_the_last_gets_what_the_response_is_to_say() -> None:
    class Core:
        def __init__(self) -> None:
            self.input_queue = self.output_queue = queue.Queue[Any]()
            self.process = EngineProcess()

        def process_input_sockets(self) -> None: ...

    core = Core()
    told: dict[str, object] = {"tandem": {"prompt": 8}}
    core.process.watch_outputs(lambda request: told if request == "open" else None)
    outputs = [
        EngineCoreOutput("open", [5]),
        EngineCoreOutput("closed", [5]),
        EngineCoreOutput("open", [5], finish_reason=FinishReason.LENGTH, kv_transfer_params={"tandem": {"prompt": 9}}),
    ]
    core.output_queue.put_nowait((0, EngineCoreOutputs(outputs=outputs)))
    core.output_queue.put_nowait(b"ENGINE_CORE_DEAD")
    _, put = core.output_queue.get_nowait()
    assert [each.kv_transfer_params for each in put.outputs] == [told, None, {"tandem": {"prompt": 9}}]
    assert core.output_queue.get_nowait() == b"ENGINE_CORE_DEAD"


def only_an_answer_as_a_whole_with_stop_strings_may_end_by_its_text() -> None:
    whole = {"output_kind": RequestOutputKind.FINAL_ONLY}
    assert may_end_by_its_text(request(8, sampling_params=SamplingParams(stop=["."], **whole)))
    assert not may_end_by_its_text(request(8, sampling_params=SamplingParams(**whole)))
    assert not may_end_by_its_text(request(8, sampling_params=SamplingParams(stop_token_ids=[5], **whole)))
    streamed = SamplingParams(stop=["."], output_kind=RequestOutputKind.DELTA)
    assert not may_end_by_its_text(request(8, sampling_params=streamed))


def without_an_engine_process_there_is_no_input() -> None:
    engine = EngineProcess()
    engine.watch(lambda _: None, lambda: None)
    engine.watch_outputs(lambda _: None)
    engine.wake()
    assert not engine.found
    assert not engine.ends


def this_vllm_is_the_right_one() -> None:
    check_version()


def what_is_wrong_with_this_vllm() -> str:
    try:
        check_version()
    except VersionError as error:
        return str(error)
    return "nothing"


def another_vllm_is_refused_by_its_version() -> None:
    vllm.__version__ = "0.33.1"
    assert "0.33.1" in what_is_wrong_with_this_vllm()
    assert "0.32" in what_is_wrong_with_this_vllm()


def a_vllm_that_lacks_something_is_refused_by_name() -> None:
    del BlockPool.touch
    assert "vllm.v1.core.block_pool.BlockPool.touch" in what_is_wrong_with_this_vllm()


if __name__ == "__main__":
    for name in sys.argv[1:]:
        try:
            (globals() | vars(shapes_inside_engine) | vars(metrics_inside_engine))[name]()
        except Exception:
            traceback.print_exc()
            print(f"failed {name}", flush=True)
        else:
            print(f"passed {name}", flush=True)
