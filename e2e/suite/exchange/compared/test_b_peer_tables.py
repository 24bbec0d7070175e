# SPDX-License-Identifier: Apache-2.0
"""Peer tables that are wrong, late, or change while a request waits for one of the peers."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from e2e.cluster.progress import wait_until
from e2e.exchange.afterwards import metrics_now
from e2e.exchange.engines import Engine
from e2e.exchange.numbers import value_of
from e2e.exchange.prompts import Answer, ask
from e2e.suite.exchange.compared.conftest import Compared
from tandem_connector.contract.peers import Peer, PeerTable
from tandem_connector.contract.types import EngineId, EngineState, Generation, Role

LONG = 1_500
"""Tokens that take some seconds to compute."""


def table(generation: int, peers: Sequence[Peer]) -> str:
    return PeerTable.of(Generation(generation), tuple(peers)).to_annotation()


def renamed(peers: Sequence[Peer], pod: str, start: str = "0") -> tuple[Peer, ...]:
    """The same addresses under other names."""
    return tuple(peer.model_copy(update={"engine": EngineId(f"{pod}-{start}"), "pod": pod}) for peer in peers)


def many(peers: Sequence[Peer]) -> tuple[Peer, ...]:
    return tuple(each for number in range(8_000) for each in renamed(peers[:1], f"pod{number}"))


WRONG: dict[str, tuple[Callable[[int, Sequence[Peer]], str], str]] = {
    "empty": (lambda _, __: "", "malformed"),
    "half of one": (lambda known, peers: table(known + 1, peers)[:-40], "malformed"),
    "nested without end": (lambda _, __: "[" * 100_000, "malformed"),
    "longer than any may be": (lambda known, peers: table(known + 1, (*peers, *many(peers))), "malformed"),
    "of another version": (
        lambda known, peers: table(known + 1, peers).replace('"version":1', '"version":2'),
        "malformed",
    ),
    "with an engine twice": (lambda known, peers: table(known + 1, (*peers, *peers)), "malformed"),
    "with other peers than its digest": (
        lambda known, peers: table(known + 1, peers).replace("127.0.0.1", "127.0.0.2"),
        "malformed",
    ),
    "older than the known one": (lambda known, _: table(known - 1, ()), "stale"),
    "with other peers than the known one of its generation": (lambda known, _: table(known, ()), "conflicting"),
}


@pytest.fixture
def told(compared: Compared) -> Iterator[None]:
    """Afterwards all tables are right again."""
    yield
    compared.engines.tell()


def counted(engine: Engine, what: str) -> float:
    return value_of(metrics_now(engine), "tandem_peer_tables_total", what=what)


def is_used(compared: Compared, seed: int) -> bool:
    """Whether prefill computes a prompt for decode, whose text is right in any case."""
    answer = compared.same(compared.ids(seed, 100), output=4)
    return bool(answer.account["received"] == {"forward": 96})


def takes(compared: Compared, peers: Sequence[Peer] | None = None) -> None:
    """Tell decode that these are its peers, or all of all that run, and wait until it has read that."""
    before = counted(compared.decode, "accepted")
    if peers is None:
        compared.engines.tell()
    else:
        compared.engines.tell_one(compared.decode, peers)
    wait_until("the table to be taken", lambda: counted(compared.decode, "accepted") > before, 10.0)


@contextmanager
def while_decode_waits(compared: Compared, seed: int) -> Iterator[Future[Answer]]:
    """Prefill has been asked for a long prompt. At the end the answer is there, with the plain engine's text."""
    ids = compared.ids(seed, LONG)
    expected, asked = compared.expected(ids, output=4), compared.front.requests
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(ask, compared.decode, ids, output=4)
        wait_until("prefill to be asked", lambda: compared.front.requests > asked, 10.0, every=0.02)
        yield answer
        assert answer.result(120).text == expected


@pytest.mark.usefixtures("told")
@pytest.mark.parametrize(("content", "what"), WRONG.values(), ids=WRONG)
def test_a_table_that_is_wrong_is_counted_and_the_known_one_holds(
    compared: Compared, content: Callable[[int, Sequence[Peer]], str], what: str
) -> None:
    engines = compared.decode, compared.prefill
    before = [counted(engine, what) for engine in engines]
    for engine in engines:
        engine.put_table(content(compared.engines.generation, compared.engines.peers_of(engine)))
    for engine, count in zip(engines, before, strict=True):
        wait_until("the table to be looked at", lambda: counted(engine, what) == count + 1, 10.0)  # noqa: B023
    assert is_used(compared, 301)


@pytest.mark.usefixtures("told")
def test_a_table_that_is_gone_is_counted_and_what_it_said_holds(compared: Compared) -> None:
    before = counted(compared.decode, "unreadable")
    compared.decode.peers_file.unlink()
    wait_until("the file to be missed", lambda: counted(compared.decode, "unreadable") == before + 1, 10.0)
    assert is_used(compared, 302)


@pytest.mark.usefixtures("told")
def test_an_engine_that_is_named_among_its_own_peers_asks_the_others(compared: Compared) -> None:
    own = compared.decode.as_peer().model_copy(update={"role": Role.PREFILL})
    other_start = own.model_copy(update={"engine": EngineId("decode-0")})
    for seed, me in ((330, own), (340, other_start)):
        takes(compared, (me, *compared.engines.peers_of(compared.decode)))
        for number in range(3):
            assert is_used(compared, seed + number)


@pytest.mark.usefixtures("told")
def test_a_prefill_engine_that_drains_ends_what_it_was_asked_and_is_asked_no_more(compared: Compared) -> None:
    with while_decode_waits(compared, 311) as answer:
        compared.engines.tell(prefill=EngineState.DRAINING)
    assert answer.result().account["received"] == {"forward": 1_472}
    assert compared.same(compared.ids(312, 100), output=4).account["local"] == "no_peer"


@pytest.mark.usefixtures("told")
def test_another_name_for_the_same_process_changes_nothing_for_who_waits_for_it(compared: Compared) -> None:
    peers = compared.engines.peers_of(compared.decode)
    with while_decode_waits(compared, 313) as answer:
        compared.engines.tell_one(compared.decode, renamed(peers, "prefill", "2"))
    assert answer.result().account["received"] == {"forward": 1_472}
    assert is_used(compared, 314)


def test_a_prefill_engine_that_leaves_the_table_ends_what_decode_waits_for_and_is_used_again_when_it_returns(
    compared: Compared,
) -> None:
    with while_decode_waits(compared, 315) as answer:
        compared.engines.tell(prefill=None)
    assert answer.result().account["received"] == {"forward": 1_472}
    assert compared.same(compared.ids(316, 100), output=4).account["local"] == "no_peer"
    wait_until("the ranks to part", lambda: "writer_peer_dropped" in compared.decode.log.read_text(), 10.0)

    # Nobody is known any more, not even an engine that another name stands for.
    takes(compared, renamed(compared.engines.peers_of(compared.decode), "another"))
    assert compared.same(compared.ids(317, 100), output=4).account["local"] == "no_peer"

    takes(compared)
    assert is_used(compared, 318)


def test_a_table_without_peers_costs_only_the_time_for_which_it_holds(compared: Compared) -> None:
    ids = compared.ids(320, 200)
    assert compared.same(ids, output=40).account["received"] == {"forward": 192}
    takes(compared, ())
    assert compared.same(compared.ids(321, 100), output=4).account["local"] == "no_peer"
    takes(compared)
    assert is_used(compared, 322)
    assert is_used(compared, 323)


def test_a_prefill_engine_whose_pod_is_said_to_be_gone_is_done_without_until_another_is_there(
    compared: Compared,
) -> None:
    peers = compared.engines.peers_of(compared.decode)
    with while_decode_waits(compared, 325) as answer:
        compared.engines.tell_one(compared.decode, (), gone=["prefill"])
    assert answer.result().account["local"] == "all_failed"

    # An address proves nothing.
    for seed, named in ((326, peers), (327, renamed(peers, "another"))):
        takes(compared, named)
        assert compared.same(compared.ids(seed, 100), output=4).account["local"] == "no_peer"
    assert "peer_not_taken" in compared.decode.log.read_text()

    compared.engines.replace("prefill")
    compared.prefill.http_port = compared.front.port
    compared.engines.tell()
    compared.engines.wait_for_connections()
    assert is_used(compared, 328)
