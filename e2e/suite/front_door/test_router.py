# SPDX-License-Identifier: Apache-2.0
"""vllm-router 0.1.17 with what the operator tells it of faults, over three stand-ins for decode engines."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from e2e.cluster.progress import wait_until
from e2e.engine.model import MODEL_NAME
from e2e.front_door.load import End, Load
from e2e.front_door.router import AS_DEPLOYED, URL, in_use, retries, running_router
from e2e.front_door.stand_ins import HOSTS, PORT, StandIns, ask, busiest, running, who_serves

SESSIONS = tuple(f"session-{number}" for number in range(12))


@pytest.fixture
def engines() -> Iterator[StandIns]:
    with running(*HOSTS) as engines:
        yield engines


@pytest.fixture
def router(engines: StandIns, tmp_path: Path) -> Iterator[None]:
    with running_router(tmp_path / "router.log", AS_DEPLOYED):
        yield


@pytest.mark.usefixtures("router")
def test_an_engine_that_dies_breaks_the_streams_that_it_was_sending_and_nothing_else(engines: StandIns) -> None:
    served = who_serves(URL, SESSIONS)
    victim = busiest(served)
    with Load(URL, SESSIONS) as load:
        wait_until("answers", load.answers_more(2 * len(SESSIONS)), 60)
        engines.kill(victim)
        wait_until("it to be left alone", lambda: in_use() == 2, 60)
        wait_until("answers", load.answers_more(4 * len(SESSIONS)), 60)
        engines.start(victim)
        wait_until("it to be used again", lambda: in_use() == 3, 60)
        wait_until("answers", load.answers_more(2 * len(SESSIONS)), 60)

    print(*load.tally.figures("router.kill", retries()), sep="\n")
    assert load.tally.count(End.HUNG) == load.tally.count(End.REFUSED) == 0, load.tally
    broken = [each for each in load.tally.ended if each.end is End.BROKEN]
    assert all(each.streamed and served[each.session] == victim for each in broken), load.tally
    # Those of the others stayed, and its own came back.
    wait_until("its circuit to close", lambda: who_serves(URL, SESSIONS) == served, 60)


@pytest.mark.usefixtures("router")
def test_sessions_stay_at_their_engines_while_another_one_is_away(engines: StandIns) -> None:
    served = who_serves(URL, SESSIONS)
    victim = busiest(served)
    engines.kill(victim)
    meanwhile = who_serves(URL, SESSIONS)
    assert {session: host for session, host in meanwhile.items() if served[session] != victim} == {
        session: host for session, host in served.items() if host != victim
    }
    assert victim not in meanwhile.values()


@pytest.mark.parametrize(
    ("arguments", "status"), [(AS_DEPLOYED, 200), ((), 500)], ids=["as deployed", "its own defaults"]
)
def test_the_first_request_after_a_death_needs_what_the_operator_says(
    engines: StandIns, tmp_path: Path, arguments: tuple[str, ...], status: int
) -> None:
    with running_router(tmp_path / "router.log", arguments):
        victim = busiest(who_serves(URL, SESSIONS))
        session = next(session for session, host in who_serves(URL, SESSIONS).items() if host == victim)
        engines.kill(victim)
        assert ask(URL, session).status_code == status


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/messages"])
@pytest.mark.usefixtures("router")
def test_responses_and_messages_are_sent_once(engines: StandIns, path: str) -> None:
    served = who_serves(URL, SESSIONS)
    victim = busiest(served)
    engines.kill(victim)
    assert ask(URL, SESSIONS[list(served.values()).index(victim)], path).status_code == 502


@pytest.mark.usefixtures("router")
def test_an_engine_that_freezes_gets_no_new_turns_and_answers_the_old_ones_when_it_thaws(engines: StandIns) -> None:
    victim = busiest(who_serves(URL, SESSIONS))
    with Load(URL, SESSIONS) as load:
        wait_until("answers", load.answers_more(2 * len(SESSIONS)), 60)
        engines.freeze(victim)
        try:
            wait_until("it to be left alone", lambda: in_use() == 2, 60)
            assert victim not in who_serves(URL, SESSIONS).values()
        finally:
            engines.thaw(victim)
        wait_until("it to be used again", lambda: in_use() == 3, 60)
        wait_until("answers", load.answers_more(2 * len(SESSIONS)), 60)

    print(*load.tally.figures("router.freeze", retries()), sep="\n")
    assert load.tally.count(End.ANSWERED) == len(load.tally.ended), load.tally


@pytest.mark.usefixtures("router")
def test_a_server_that_fails_every_turn_is_noticed_by_no_client(engines: StandIns) -> None:
    served = who_serves(URL, SESSIONS)
    victim = busiest(served)
    engines.start(victim, fails=True)
    with Load(URL, SESSIONS) as load:
        wait_until("answers", load.answers_more(12 * len(SESSIONS)), 100)

    print(*load.tally.figures("router.5xx", retries()), sep="\n")
    assert load.tally.count(End.ANSWERED) == len(load.tally.ended), load.tally
    now = who_serves(URL, SESSIONS)
    assert all(now[session] == host for session, host in served.items() if host != victim)


@pytest.mark.usefixtures("router")
def test_two_replicas_send_each_session_to_the_same_engine(engines: StandIns, tmp_path: Path) -> None:
    with running_router(tmp_path / "second.log", AS_DEPLOYED, host="127.0.0.9") as second:
        assert who_serves(second, SESSIONS) == who_serves(URL, SESSIONS)
        engines.kill(busiest(who_serves(URL, SESSIONS)))
        wait_until("both to leave it alone", lambda: in_use() == in_use(second) == 2, 60)
        assert who_serves(second, SESSIONS) == who_serves(URL, SESSIONS)


@pytest.mark.usefixtures("engines")
def test_with_round_robin_a_session_goes_to_all_engines_by_turns(tmp_path: Path) -> None:
    with running_router(tmp_path / "router.log", (*AS_DEPLOYED, "--policy", "round_robin")) as url:
        served = [who_serves(url, ["session"])["session"] for _ in range(2 * len(HOSTS))]
    assert served[: len(HOSTS)] == served[len(HOSTS) :]
    assert set(served) == set(HOSTS)


@pytest.mark.usefixtures("engines", "router")
def test_it_passes_on_what_is_said_of_functions_but_whether_they_are_strict() -> None:
    function = {"name": "move", "parameters": {"type": "object", "properties": {"sessions": {"type": "integer"}}}}
    body = {
        "model": MODEL_NAME,
        "messages": [{"role": "user", "content": "Go on"}],
        "max_tokens": 1,
        "tools": [{"type": "function", "function": function}],
        "tool_choice": {"type": "function", "function": {"name": "move"}},
        "parallel_tool_calls": False,
        "response_format": {"type": "json_schema", "json_schema": {"name": "moved", "schema": function["parameters"]}},
        "logit_bias": {"60": 50},
    }
    strict = {**body, "tools": [{"type": "function", "function": {**function, "strict": True}}]}
    answer = httpx.post(f"{URL}/v1/chat/completions", json=strict, timeout=30.0).raise_for_status()
    passed_on = json.loads(answer.json()["choices"][0]["message"]["content"])
    assert {name: passed_on.get(name) for name in body} == body


@pytest.mark.usefixtures("engines", "router")
def test_whoever_reaches_it_can_take_an_engine_out() -> None:
    httpx.post(f"{URL}/remove_worker", params={"url": f"http://{HOSTS[0]}:{PORT}"}).raise_for_status()
    assert HOSTS[0] not in who_serves(URL, SESSIONS).values()
