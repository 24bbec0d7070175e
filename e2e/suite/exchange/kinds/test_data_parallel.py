# SPDX-License-Identifier: Apache-2.0
"""Data-parallel ranks: two engines behind each server, each with a scheduler, a cache and peers of its own.

vLLM's server deals requests out in turns unless a header names a rank, as the front door and decode's own prefill requests do.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.cluster.progress import wait_until
from e2e.engine.environment import build_environment
from e2e.exchange.afterwards import metrics_now, nothing_is_held
from e2e.exchange.asking import asking
from e2e.exchange.engines import BLOCK_SIZE, Engine, Engines, EngineSpec, running
from e2e.exchange.numbers import value_of
from e2e.exchange.processes import named
from e2e.exchange.prompts import ask
from e2e.suite.exchange.conftest import EVERY_PREFILL, PROMPTS, Reference
from e2e.suite.exchange.conversing import Held, converse, excess, prefilled
from tandem_connector import drain, probe
from tandem_connector.contract.environment import DATA_PARALLEL, STATUS_FILE
from tandem_connector.contract.types import Role

pytestmark = pytest.mark.long

RANKS = (0, 1)
HOME = 1
"""Decode's rank that has the conversation."""
SHARED_CORES = {**EVERY_PREFILL, "silent_after": 5.0}
"""Four engines on two cores: one may not get to answer for some seconds."""
TRANSPORT_BOUND = 10.0
"""Seconds for which blocks stay held when a peer has died, with that patience."""


@pytest.fixture(scope="module")
def engines(reference: Reference, model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engines]:
    del reference  # it wants the cores for itself
    with running(build_environment(), model, tmp_path_factory.mktemp("ranks")) as started:
        started.start(
            **{role.value: EngineSpec(role, core="0|1", data_parallel=len(RANKS), extra=SHARED_CORES) for role in Role}
        )
        started.wait_for_connections()
        yield started


@pytest.fixture(scope="module")
def prefill(engines: Engines) -> Engine:
    return engines["prefill"]


@pytest.fixture(scope="module")
def decode(engines: Engines) -> Engine:
    return engines["decode"]


@pytest.fixture(scope="module")
def talk(prefill: Engine, decode: Engine) -> Held:
    """A conversation with one rank, before anything else is asked."""
    return converse(prefill, decode, rank=HOME)


def by_rank(engine: Engine, name: str, **labels: str) -> list[float]:
    """What each rank has counted by now."""
    text = metrics_now(engine)
    return [value_of(text, name, engine=str(rank), **labels) for rank in RANKS]


def test_the_answers_are_a_plain_engines(talk: Held, reference: Reference) -> None:
    assert [turn.text for turn in talk.turns] == [turn.text for turn in reference.conversation]


def test_each_turn_computes_what_is_new_and_gets_the_rest(talk: Held) -> None:
    assert excess(talk) == []


def test_the_rank_that_was_asked_computes_and_is_given_back_what_decode_computed(
    talk: Held, prefill: Engine, decode: Engine
) -> None:
    asked = [len(prefill.turns(rank)) for rank in RANKS]
    assert sorted(asked) == [0, len(talk.turns)]
    (chosen,) = (rank for rank in RANKS if asked[rank])
    for writer, receiver, purpose, of_writer, of_receiver in (
        (prefill, decode, "forward", chosen, HOME),
        (decode, prefill, "reverse_push", HOME, chosen),
    ):
        written = by_rank(writer, "tandem_bytes_written_total", purpose=purpose)
        received = by_rank(receiver, "tandem_bytes_received_total", purpose=purpose)
        assert written[of_writer] == received[of_receiver] > 0
        assert (written[1 - of_writer], received[1 - of_receiver]) == (0, 0)
        # By pod, as all ranks of one have one name there; and from several API servers, of which each hears of some steps.
        assert by_rank(writer, "tandem_peer_bytes_written_total", peer=receiver.name, purpose=purpose) == written
        assert by_rank(receiver, "tandem_peer_bytes_received_total", peer=writer.name, purpose=purpose) == received


def test_each_rank_has_its_own_door_and_has_joined_each_rank_of_the_other_pool(
    talk: Held, prefill: Engine, decode: Engine
) -> None:
    del talk  # it counts what has moved by then
    for engine in (prefill, decode):
        probe.check("127.0.0.1", engine.port, *(engine.ports.side + rank for rank in RANKS))
        assert by_rank(engine, "tandem_peers_connected") == [len(RANKS)] * len(RANKS)


def test_a_conversation_that_comes_to_another_rank_is_computed_by_the_same_prefill_rank_and_only_what_is_new(
    prefill: Engine, decode: Engine, reference: Reference, model: Path
) -> None:
    prompt = PROMPTS[2]
    ids, blocks = prompt.ids(model), (prompt.tokens - 1) // BLOCK_SIZE
    # The second has all blocks before prefill looks at the rest of its prompt, or after, and cancels what isn't needed.
    for rank, fewest, most in ((0, prompt.tokens, prompt.tokens), (1, 0, prompt.tokens - blocks * BLOCK_SIZE)):
        time.sleep(1.0)  # that it knows nobody to have work
        answer = ask(decode, ids, rank=rank)
        assert answer.text == reference.texts[prompt]
        assert answer.account["received"] == {"forward": blocks * BLOCK_SIZE}
        assert fewest <= prefilled(answer, prefill)["computed"] <= most


def test_prompts_that_come_at_one_time_are_shared_out_among_the_ranks_and_none_is_computed_by_another_than_was_asked(
    prefill: Engine, decode: Engine, reference: Reference, model: Path
) -> None:
    before = [len(prefill.turns(rank)) for rank in RANKS]
    prompts = (PROMPTS[0], PROMPTS[1], PROMPTS[3], PROMPTS[4])
    waiting = [asking(decode, prompt.ids(model), rank=number // 2) for number, prompt in enumerate(prompts)]
    answers = [each.result() for each in waiting]
    for prompt, answer in zip(prompts, answers, strict=True):
        assert answer.text == reference.texts[prompt]
        assert answer.account["received"] == {"forward": (prompt.tokens - 1) // BLOCK_SIZE * BLOCK_SIZE}
        prefilled(answer, prefill)  # its turn may end later than decode's
    after = [len(prefill.turns(rank)) for rank in RANKS]
    # One that was too slow to answer on a busy machine may have computed too, before another was asked.
    asked = sum(len(answer.account["asked"]) for answer in answers)
    assert len(prompts) <= sum(after) - sum(before) <= asked
    assert all(now > then for now, then in zip(after, before, strict=True))
    assert value_of(prefill.metrics(), "tandem_notes_refused_total") == 0
    written, received = (
        sum(by_rank(engine, f"tandem_bytes_{what}_total", purpose="forward"))
        for engine, what in ((prefill, "written"), (decode, "received"))
    )
    assert written == received


def test_when_the_process_of_a_prefill_rank_is_killed_decode_computes_and_nothing_is_held(
    engines: Engines, prefill: Engine, decode: Engine, reference: Reference, model: Path
) -> None:
    prompt = PROMPTS[5]
    waiting = [asking(decode, prompt.ids(model), rank=rank) for rank in RANKS]
    time.sleep(0.3)
    for pid in named(prefill, "EngineCore_DP0"):
        os.kill(pid, signal.SIGKILL)
    assert [each.result().text for each in waiting] == [reference.texts[prompt]] * len(RANKS)
    wait_until("prefill's server to end with its rank", lambda: not prefill.alive, 60.0)
    engines.tell()
    nothing_is_held(decode, within=2 * TRANSPORT_BOUND)
    for rank in RANKS:
        assert ask(decode, prompt.ids(model), rank=rank).account["local"] == "no_peer"


def test_the_hook_that_ends_a_pod_waits_for_all_of_its_ranks(decode: Engine, model: Path) -> None:
    paths = [str(decode.of_rank(decode.status_file, rank)) for rank in RANKS]
    assert [drain.stage(path) for path in paths] == ["serving"] * len(RANKS)
    done = subprocess.run(
        [sys.executable, "-I", "-S", drain.__file__, "--within=30"],
        env={STATUS_FILE: str(decode.status_file), DATA_PARALLEL: str(len(RANKS))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert [drain.stage(path) for path in paths] == ["drained"] * len(RANKS)
    for rank in RANKS:
        assert ask(decode, PROMPTS[0].ids(model), rank=rank).account["local"] == "draining"
