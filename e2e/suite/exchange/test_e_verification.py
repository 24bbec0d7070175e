# SPDX-License-Identifier: Apache-2.0
"""The operator's conversations with real engines: with a pair that works, and with pairs that don't, each in its way."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.engine.environment import build_environment
from e2e.engine.model import cached_model
from e2e.exchange.engines import Engines, EngineSpec, running
from e2e.exchange.numbers import value_of
from e2e.exchange.verifying import ABOVE_TOKENS, result_of, verify
from e2e.suite.exchange.conftest import Pair
from tandem_connector.contract.types import Role
from tandem_operator.api.status import Reason
from tandem_operator.plan.conversation import Standing
from tandem_operator.plan.verification import Fabric

EVERY = {"disaggregate_above_tokens": ABOVE_TOKENS, "estimate_age": 0}
CONVERSATIONS = 12
"""That this model is unsure in each of so many is out of the question."""
TCP = Fabric(backend="UCX", provider="", devices=0)


def test_a_pair_that_works_shows_it_each_time_and_says_over_what(pair: Pair) -> None:
    moved = "tandem_blocks_received_total"
    back = value_of(pair.prefill.metrics(), moved, purpose="reverse_push")
    for _ in range(3):
        report = verify(pair.decode, pair.prefill)
        assert report.results == {pair.prefill.id: result_of(report)}
        assert (result_of(report).standing, result_of(report).detail) == (Standing.SHOWN, "")
        assert set(report.fabrics.values()) == {TCP}
        assert len(report.fabrics) == 2
    assert value_of(pair.prefill.metrics(), moved, purpose="reverse_push") > back


def test_afterwards_nothing_is_held(pair: Pair) -> None:
    assert pair.prefill.post("/reset_prefix_cache")["success"]
    assert pair.decode.post("/reset_prefix_cache")["success"]


def test_decode_that_is_told_of_nobody_has_no_peer(pair: Pair) -> None:
    pair.engines.tell(prefill=None)
    try:
        result = result_of(verify(pair.decode, pair.prefill))
        assert (result.standing, result.reason) == (Standing.FAILED, Reason.NO_PEER)
    finally:
        pair.engines.tell()
        pair.engines.wait_for_connections()


@contextmanager
def of_two_models(folder: Path, prefill: Path, decode: Path) -> Iterator[Engines]:
    """A prefill and a decode engine with different weights in a folder of one name: nothing in their settings differs."""
    folder.mkdir(parents=True, exist_ok=True)
    served = folder / "model"
    with running(build_environment(), served, folder / "engines") as engines:
        served.symlink_to(prefill)
        engines.start(prefill=EngineSpec(Role.PREFILL, core="0", extra=EVERY))
        served.unlink()
        served.symlink_to(decode)
        engines.start(decode=EngineSpec(Role.DECODE, core="1", extra=EVERY))
        engines.wait_for_connections()
        yield engines


def test_kv_of_other_weights_is_told_by_the_answer(model: Path, tmp_path: Path) -> None:
    with of_two_models(tmp_path, cached_model(seed=1), model) as engines:
        results = (result_of(verify(engines["decode"], engines["prefill"])) for _ in range(CONVERSATIONS))
        # Where the model isn't sure of its first token, nothing is said.
        said = next(result for result in results if result.standing is not Standing.OPEN)
    assert (said.standing, said.reason) == (Standing.FAILED, Reason.WRONG_OUTPUT)


def test_engines_that_refuse_each_other_are_of_different_versions(model: Path, tmp_path: Path) -> None:
    with running(build_environment(), model, tmp_path) as engines:
        engines.start(
            prefill=EngineSpec(Role.PREFILL, core="0", extra=EVERY, arguments=("--revision", "other")),
            decode=EngineSpec(Role.DECODE, core="1", extra=EVERY),
        )
        result = result_of(verify(engines["decode"], engines["prefill"]))
    assert (result.standing, result.reason) == (Standing.FAILED, Reason.VERSION_MISMATCH)


def test_a_prefill_engine_that_has_crashed_moves_nothing(pair: Pair) -> None:
    pair.prefill.kill()
    result = result_of(verify(pair.decode, pair.prefill))
    assert result.standing is Standing.FAILED
    assert result.reason in {Reason.NO_PEER, Reason.NOTHING_MOVED}
