# SPDX-License-Identifier: Apache-2.0
"""Conversations over HTTP, with stand-ins for engines: each way in which one can fail, when they are held, and when they end."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from tandem_connector.contract.types import EngineId
from tandem_operator.api.status import Reason
from tandem_operator.kube.observe import ResourceKey
from tandem_operator.metrics import Metrics
from tandem_operator.plan.conversation import Course, Failed, Fault, Standing
from tandem_operator.plan.target import AT_ONCE_SECONDS, SOON_SECONDS, Target
from tandem_operator.plan.verification import Fabric, PairRecord, Report
from tandem_operator.wiring import engine_client
from tandem_operator.wiring.conversing import LANDING, Conversations
from tandem_operator.wiring.engine_client import EngineClient, engine_session, read_metrics
from tests.wiring.stand_in_engine import StandIn, serving

KEY = ResourceKey("models", "qwen")
D, P = EngineId("d-0.1"), EngineId("p-0.1")
NAMED = "p-as.it.names.itself"
"""Prefill, in decode's accounts."""


def a_decode(**more: Any) -> StandIn:
    return StandIn(D, **{"account": {"asked": [NAMED]}, **more})


def a_prefill(**more: Any) -> StandIn:
    return StandIn(P, **more)


def a_target(decode: StandIn, prefill: StandIn, **more: Any) -> Target:
    usual: dict[str, Any] = {
        "pod": "d",
        "place": decode.place,
        "ranks": 1,
        "prefills": {"p": prefill.place},
        "model": "m",
        "course": Course.of(256, 16, pushes=True),
        "period": 600.0,
        "settled": False,
        "pairs": {},
        "fabrics": {},
    }
    return Target(**{**usual, **more})


class Holding:
    """Conversations whose pauses end when a test says so."""

    def __init__(self, client: EngineClient, at_once: int = 4) -> None:
        self.told: list[ResourceKey] = []
        self.pauses: list[float] = []
        self._heard = asyncio.Event()
        self._go = asyncio.Semaphore(0)
        self.conversations = Conversations(
            client, Metrics(CollectorRegistry()), at_once=at_once, on_report=self._hear, sleep=self._pause
        )

    def _hear(self, key: ResourceKey) -> None:
        self.told.append(key)
        self._heard.set()

    async def _pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        if seconds != LANDING:
            await self._go.acquire()

    async def holds_one(self, targets: Iterable[Target]) -> Report:
        """The next report of these."""
        self._heard.clear()
        self.conversations.follow(KEY, targets)
        self._go.release()
        async with asyncio.timeout(10):
            await self._heard.wait()
        return self.conversations.reports(KEY)[-1]


async def one(decode: StandIn, prefill: StandIn, **changes: Any) -> Report:
    async with serving(decode, prefill), engine_session() as session:
        holding = Holding(EngineClient(session))
        try:
            return await holding.holds_one([replace(a_target(decode, prefill), **changes)])
        finally:
            holding.conversations.stop()


async def test_engines_that_exchange_show_it_and_say_over_what() -> None:
    decode, prefill = a_decode(), a_prefill()
    report = await one(decode, prefill)
    assert {engine: result.standing for engine, result in report.results.items()} == {P: Standing.SHOWN}
    tcp = Fabric(backend="UCX", provider="", devices=0)
    assert report.fabrics == {"d": tcp, "p": tcp}
    assert report.engines == {"d": D, "p": P}


async def test_a_conversation_has_salts_of_its_own_and_is_two_turns_and_one_of_prefill_by_itself() -> None:
    decode, prefill = a_decode(), a_prefill()
    await one(decode, prefill)
    first, second = decode.seen
    (alone,) = prefill.seen
    assert first["cache_salt"] == second["cache_salt"] != alone["cache_salt"]
    assert second["prompt"][: len(first["prompt"])] == first["prompt"]
    assert alone["prompt"] == second["prompt"]
    again = a_decode()
    await one(again, a_prefill())
    assert again.seen[0]["cache_salt"] != first["cache_salt"]
    assert again.seen[0]["prompt"] != first["prompt"]


@pytest.mark.parametrize(
    ("decode", "prefill", "of", "reason"),
    [
        (a_decode(account={"local": "no_peer"}), a_prefill(), "", Reason.NO_PEER),
        (a_decode(account={"local": "no_peer"}, refuses_peers=2), a_prefill(), "", Reason.VERSION_MISMATCH),
        (a_decode(account={"local": "too_late", "asked": [NAMED]}), a_prefill(), P, Reason.TIMEOUT),
        (a_decode(account={"computed": 400, "asked": [NAMED]}), a_prefill(), P, Reason.NOTHING_MOVED),
        (a_decode(account={"computed_by_prefill": 600, "asked": [NAMED]}), a_prefill(), P, Reason.NOTHING_MOVED_BACK),
        (a_decode(account=None), a_prefill(), "", Reason.NOTHING_MOVED),
        (a_decode(is_wrong=True), a_prefill(), P, Reason.WRONG_OUTPUT),
        (a_decode(status=500), a_prefill(), "", Reason.ENGINE_UNREACHABLE),
        (a_decode(says="<html>"), a_prefill(), "", Reason.ENGINE_UNREACHABLE),
        (a_decode(status=302), a_prefill(), "", Reason.ENGINE_UNREACHABLE),
    ],
)
async def test_each_failure_is_told_of_whoever_failed_with_its_reason(
    decode: StandIn, prefill: StandIn, of: str, reason: Reason
) -> None:
    result = (await one(decode, prefill)).results[of]
    assert (result.standing, result.reason) == (Standing.FAILED, reason)


@pytest.mark.parametrize(
    ("decode", "prefill", "of", "reason"),
    [
        (a_decode(status=401), a_prefill(), "", Reason.KEY_REQUIRED),
        (a_decode(status=400), a_prefill(), "", Reason.CONVERSATION_REFUSED),
        (a_decode(), a_prefill(status=401), P, Reason.KEY_REQUIRED),
        (a_decode(), a_prefill(status=500), P, Reason.ENGINE_UNREACHABLE),
    ],
)
async def test_what_says_nothing_for_or_against_is_open(
    decode: StandIn, prefill: StandIn, of: str, reason: Reason
) -> None:
    result = (await one(decode, prefill)).results[of]
    assert (result.standing, result.reason) == (Standing.OPEN, reason)


async def test_an_engine_that_refuses_is_quoted_in_short() -> None:
    (result,) = (await one(a_decode(status=400, says="x" * 10_000), a_prefill())).results.values()
    assert result.detail.startswith("decode: HTTP 400: xxx")
    assert len(result.detail) < 200


async def test_an_engine_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_client, "ANSWER_WITHIN", 0.2)
    (result,) = (await one(a_decode(hangs=True), a_prefill())).results.values()
    assert (result.standing, result.reason) == (Standing.FAILED, Reason.TIMEOUT)


async def test_an_engine_that_is_gone_is_unreachable() -> None:
    decode = a_decode()
    async with serving(decode):
        pass
    async with engine_session() as session:
        failed = await EngineClient(session).complete(decode.place, {})
    assert isinstance(failed, Failed)
    assert failed.fault is Fault.UNREACHABLE


async def test_an_answer_without_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_client, "_MOST_BYTES", 1000)
    (result,) = (await one(a_decode(says="x" * 100_000), a_prefill())).results.values()
    assert result.reason is Reason.ENGINE_UNREACHABLE
    assert "more than 1000 bytes" in result.detail


async def test_data_parallel_ranks_take_turns_and_a_conversation_stays_with_one() -> None:
    decode, prefill = a_decode(), a_prefill()
    async with serving(decode, prefill), engine_session() as session:
        holding = Holding(EngineClient(session))
        target = a_target(decode, prefill, ranks=2)
        await holding.holds_one([target])
        await holding.holds_one([target])
        holding.conversations.stop()
    assert decode.ranks == ["0", "0", "1", "1"]
    assert prefill.ranks == [None, None]


async def test_reports_wait_until_they_are_written() -> None:
    decode, prefill = a_decode(), a_prefill()
    async with serving(decode, prefill), engine_session() as session:
        holding = Holding(EngineClient(session))
        report = await holding.holds_one([a_target(decode, prefill)])
        await holding.holds_one([a_target(decode, prefill)])
        holding.conversations.written(KEY, [report])
        assert len(holding.conversations.reports(KEY)) == 1
        holding.conversations.forget(KEY)
        assert holding.conversations.reports(KEY) == ()


async def test_what_is_known_already_wakes_nobody() -> None:
    decode, prefill = a_decode(), a_prefill()
    async with serving(decode, prefill), engine_session() as session:
        holding = Holding(EngineClient(session))
        report = await holding.holds_one([a_target(decode, prefill)])
        pairs = {P: PairRecord(standing=Standing.SHOWN, reason=Reason.VERIFIED)}
        known = a_target(decode, prefill, settled=True, pairs=pairs, fabrics=report.fabrics)
        holding.conversations.follow(KEY, [known])
        holding._go.release()
        await _until(lambda: len(decode.seen) == 4 and len(prefill.seen) == 2)
        await _until(lambda: holding.pauses[-1] > 100)
        holding.conversations.stop()
    assert holding.told == [KEY]
    assert 480 <= holding.pauses[-1] <= 600


async def test_a_pair_that_was_well_and_fails_is_tried_again_soon_and_not_after_its_period() -> None:
    decode, prefill = a_decode(status=500), a_prefill()
    pairs = {P: PairRecord(standing=Standing.SHOWN, reason=Reason.VERIFIED)}
    async with serving(decode, prefill), engine_session() as session:
        holding = Holding(EngineClient(session))
        await holding.holds_one([a_target(decode, prefill, settled=True, pairs=pairs)])
        await _until(lambda: len(holding.pauses) > 1)
        holding.conversations.stop()
    assert 16 <= holding.pauses[-1] <= 20


async def test_an_engine_that_is_no_target_any_more_is_left_alone_at_once() -> None:
    decode, prefill = a_decode(hangs=True), a_prefill()
    async with serving(decode, prefill), engine_session() as session:
        holding = Holding(EngineClient(session))
        holding.conversations.follow(KEY, [a_target(decode, prefill)])
        holding._go.release()
        await _until(lambda: bool(decode.seen))
        holding.conversations.follow(KEY, [])
        assert not [
            task for task in asyncio.all_tasks() if "_follow" in repr(task.get_coro()) and not task.cancelling()
        ]
    assert holding.told == []


async def test_only_so_many_are_held_at_one_time() -> None:
    engines = [StandIn(EngineId(f"d{number}-0.1"), account={}, hangs=True) for number in range(3)]
    prefill = a_prefill()
    async with serving(*engines, prefill), engine_session() as session:
        holding = Holding(EngineClient(session), at_once=2)
        holding.conversations.follow(KEY, [a_target(engine, prefill, pod=f"d{n}") for n, engine in enumerate(engines)])
        for _ in engines:
            holding._go.release()
        await _until(lambda: sum(len(engine.seen) for engine in engines) == 2)
        await asyncio.sleep(0.1)
        assert sum(len(engine.seen) for engine in engines) == 2
        holding.conversations.stop()


async def test_a_request_ends_the_pause_and_its_conversation_says_for_whom_it_was_held() -> None:
    decode, prefill = a_decode(), a_prefill()
    async with serving(decode, prefill), engine_session() as session:
        holding = Holding(EngineClient(session))
        report = await holding.holds_one([a_target(decode, prefill)])
        assert report.request == ""
        pairs = {P: PairRecord(standing=Standing.SHOWN, reason=Reason.VERIFIED)}
        known = a_target(decode, prefill, settled=True, pairs=pairs, fabrics=report.fabrics)
        holding.conversations.follow(KEY, [known])
        await _until(lambda: holding.pauses[-1] > 10)
        # Nobody lets this pause end.
        holding.conversations.follow(KEY, [replace(known, request="now")])
        await _until(lambda: len(holding.told) == 2)
        assert holding.conversations.reports(KEY)[-1].request == "now"
        await _until(lambda: holding.pauses[-1] <= AT_ONCE_SECONDS and holding.pauses[-1] != LANDING)
        holding.conversations.follow(KEY, [known])
        await _until(lambda: holding.pauses[-1] > 100)
        holding.conversations.stop()
    assert len(decode.seen) == 4, "two conversations, and none after the request was answered"


async def test_the_same_request_told_again_ends_no_pause() -> None:
    decode, prefill = a_decode(account={"local": "no_peer"}), a_prefill()
    async with serving(decode, prefill), engine_session() as session:
        holding = Holding(EngineClient(session))
        asked = a_target(decode, prefill, request="now")
        await holding.holds_one([asked])
        await _until(lambda: holding.pauses[-1] > AT_ONCE_SECONDS)
        assert 0.8 * SOON_SECONDS <= holding.pauses[-1] <= SOON_SECONDS, "what failed isn't asked at once again"
        before = len(holding.pauses)
        for _ in range(3):
            holding.conversations.follow(KEY, [asked])
            await asyncio.sleep(0.01)
        assert len(holding.pauses) == before
        holding.conversations.stop()


async def test_a_conversation_that_runs_when_another_request_comes_is_held_for_the_one_before() -> None:
    decode, prefill = a_decode(hangs=True), a_prefill()
    async with serving(decode, prefill), engine_session() as session:
        holding = Holding(EngineClient(session))
        target = a_target(decode, prefill, request="first")
        holding.conversations.follow(KEY, [target])
        holding._go.release()
        await _until(lambda: bool(decode.seen))
        holding.conversations.follow(KEY, [replace(target, request="second")])
        decode.goes_on.set()
        await _until(lambda: bool(holding.told))
        assert holding.conversations.reports(KEY)[-1].request == "first"
        holding._go.release()
        await _until(lambda: len(holding.told) == 2)
        assert holding.conversations.reports(KEY)[-1].request == "second"
        holding.conversations.stop()


async def test_an_operator_that_has_just_begun_does_not_keep_a_request_waiting_for_its_period() -> None:
    decode, prefill = a_decode(), a_prefill()
    async with serving(decode, prefill), engine_session() as session:
        holding = Holding(EngineClient(session))
        holding.conversations.follow(KEY, [a_target(decode, prefill, settled=True, request="now")])
        await _until(lambda: bool(holding.pauses))
        holding.conversations.stop()
    assert holding.pauses == [2.0]


@pytest.mark.parametrize("text", ["tandem_transport{", "tandem_transport 1\n"])
def test_metrics_that_cannot_be_read_say_nothing(text: str) -> None:
    assert read_metrics(text) is None


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - what stand-ins have seen is told by no event
            await asyncio.sleep(0.01)
