# SPDX-License-Identifier: Apache-2.0
"""Which blocks a step fills."""

from collections import deque
from collections.abc import Sequence

from hypothesis import given
from hypothesis.strategies import integers

from tandem_connector.exchange.types import BlockHash, BlockId, FreshBlocks, RequestId
from tandem_connector.vllm.steps import Scheduled, Steps

R = RequestId("r")
SIZE = 4


def names(count: int) -> list[BlockHash]:
    return [BlockHash(b"name-%04d" % position) for position in range(count)]


def blocks_of(request: RequestId, start: int, stop: int) -> Sequence[BlockId]:
    """Block 100 is the request's first, and so on."""
    assert request == R
    return [BlockId(100 + index) for index in range(start, stop)]


def fresh(start: int, stop: int) -> FreshBlocks:
    return FreshBlocks(
        R, start, tuple(names(99)[start:stop]), tuple(BlockId(100 + index) for index in range(start, stop))
    )


def with_request(hashes: list[BlockHash], prompt: int) -> Steps:
    steps = Steps(SIZE)
    steps.arrived(R, hashes, prompt)
    return steps


def test_a_prompt_fills_its_full_blocks_chunk_by_chunk() -> None:
    steps = with_request(names(3), prompt=14)
    assert steps.scheduled([Scheduled(R, 0, 6)], blocks_of) == [fresh(0, 1)]
    assert steps.scheduled([Scheduled(R, 6, 8)], blocks_of) == [fresh(1, 3)]


def test_what_was_cached_or_received_is_not_filled() -> None:
    steps = with_request(names(3), prompt=14)
    assert steps.scheduled([Scheduled(R, 8, 6)], blocks_of) == [fresh(2, 3)]


def test_the_prompt_tokens_of_a_step_are_counted() -> None:
    steps = with_request(names(3), prompt=14)
    counted = []
    for before, tokens in ((0, 6), (6, 8), (14, 1)):
        steps.scheduled([Scheduled(R, before, tokens)], blocks_of)
        counted.append(steps.prompt_tokens)
    assert counted == [6, 8, 0]


def test_a_step_that_completes_no_block_fills_none() -> None:
    steps = with_request(names(1), prompt=6)
    steps.scheduled([Scheduled(R, 0, 6)], blocks_of)
    assert steps.scheduled([Scheduled(R, 6, 1)], blocks_of) == []


def test_output_fills_blocks_as_their_names_become_known() -> None:
    hashes = names(1)
    steps = with_request(hashes, prompt=6)
    steps.scheduled([Scheduled(R, 0, 6)], blocks_of)
    steps.scheduled([Scheduled(R, 6, 1)], blocks_of)
    hashes.append(names(2)[1])
    assert steps.scheduled([Scheduled(R, 7, 1)], blocks_of) == [fresh(1, 2)]


def test_a_block_whose_name_is_not_known_yet_is_announced_with_the_next_step() -> None:
    hashes = names(1)
    steps = with_request(hashes, prompt=6)
    steps.scheduled([Scheduled(R, 0, 6)], blocks_of)
    assert steps.scheduled([Scheduled(R, 7, 1)], blocks_of) == []
    hashes.append(names(2)[1])
    assert steps.scheduled([Scheduled(R, 8, 1)], blocks_of) == [fresh(1, 2)]


def test_a_request_that_was_preempted_fills_its_blocks_again() -> None:
    steps = with_request(names(3), prompt=14)
    steps.scheduled([Scheduled(R, 0, 14)], blocks_of)
    assert steps.scheduled([Scheduled(R, 4, 10)], blocks_of) == [fresh(1, 3)]


def test_prompt_tokens_are_counted_and_output_is_not() -> None:
    steps = with_request(names(3), prompt=14)
    steps.scheduled([Scheduled(R, 8, 6)], blocks_of)
    steps.scheduled([Scheduled(R, 14, 1)], blocks_of)
    progress = steps.ended(R)
    assert progress is not None
    assert progress.computed == 6


def test_a_request_that_is_over_is_forgotten() -> None:
    steps = with_request(names(3), prompt=14)
    steps.ended(R)
    assert steps.scheduled([Scheduled(R, 0, 14)], blocks_of) == []


@given(prompt=integers(1, 40), output=integers(1, 30), chunk=integers(1, 16), ahead=integers(0, 2))
def test_each_block_is_announced_once_and_never_before_the_step_that_fills_it(
    prompt: int, output: int, chunk: int, ahead: int
) -> None:
    """`ahead` steps are scheduled before the token is known that a step samples."""
    hashes = names(prompt // SIZE)
    steps = with_request(hashes, prompt)
    computed, known, unknown = 0, prompt, deque[int]()
    filled_by: dict[int, int] = {}
    announced: dict[int, int] = {}
    for step in range(1, prompt + output):
        tokens = min(chunk, prompt - computed) if computed < prompt else 1
        filled_by |= {token // SIZE: step for token in range(computed, computed + tokens)}
        for fresh in steps.scheduled([Scheduled(R, computed, tokens)], blocks_of):
            blocks = range(fresh.position, fresh.position + len(fresh.hashes))
            assert announced.keys().isdisjoint(blocks)
            announced |= dict.fromkeys(blocks, step)
        computed += tokens
        if computed >= prompt:
            unknown.append(step)
        if len(unknown) > ahead:
            unknown.popleft()
            known += 1
            hashes[:] = names(known // SIZE)
    full = {block: step for block, step in filled_by.items() if (block + 1) * SIZE <= computed}
    assert announced.keys() <= full.keys()
    assert all(step >= full[block] for block, step in announced.items())
    if not ahead:
        assert announced == full
    hashes[:] = names((computed + 1) // SIZE)
    rest = {
        fresh.position + offset for fresh in steps.rest(R, computed, blocks_of) for offset in range(len(fresh.hashes))
    }
    assert rest == full.keys() - announced.keys()


def test_a_block_whose_name_came_after_its_last_step_is_told_of_when_the_request_ends() -> None:
    hashes = names(1)
    steps = with_request(hashes, prompt=6)
    steps.scheduled([Scheduled(R, 0, 6)], blocks_of)
    assert steps.scheduled([Scheduled(R, 6, 2)], blocks_of) == []
    hashes.append(names(2)[1])
    assert steps.rest(R, 8, blocks_of) == [fresh(1, 2)]


def test_what_has_a_name_and_no_kv_is_not_told_of_when_the_request_ends() -> None:
    hashes = names(1)
    steps = with_request(hashes, prompt=6)
    steps.scheduled([Scheduled(R, 0, 6)], blocks_of)
    hashes.append(names(2)[1])
    assert steps.rest(R, 7, blocks_of) == []


def test_when_steps_do_not_overlap_nothing_is_left_when_a_request_ends() -> None:
    hashes = names(1)
    steps = with_request(hashes, prompt=6)
    steps.scheduled([Scheduled(R, 0, 6)], blocks_of)
    steps.scheduled([Scheduled(R, 6, 1)], blocks_of)
    hashes.append(names(2)[1])
    steps.scheduled([Scheduled(R, 7, 1)], blocks_of)
    assert steps.rest(R, 8, blocks_of) == []


def test_a_request_that_ends_before_its_first_step_has_filled_nothing() -> None:
    assert with_request(names(3), prompt=14).rest(R, 0, blocks_of) == []
