# SPDX-License-Identifier: Apache-2.0
"""nginx as Debian has it, with the files of `manifests/samples/nginx-front-door.yaml`, over stand-ins for decode engines."""

import shutil
from collections.abc import Iterator

import httpx
import pytest

from e2e.cluster.progress import wait_until
from e2e.engine.model import MODEL_NAME
from e2e.front_door.load import End, Load
from e2e.front_door.nginx import URL, Nginx
from e2e.front_door.stand_ins import HOSTS, StandIns, ask, busiest, running, who_serves

SESSIONS = tuple(f"session-{number}" for number in range(12))
"""Each engine has some of them: what they are hashed with is always the same."""

pytestmark = pytest.mark.skipif(
    not shutil.which("apt-get") or not shutil.which("dpkg-deb"), reason="nginx comes from Debian's packages"
)


@pytest.fixture(scope="module")
def nginx(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nginx]:
    nginx = Nginx(tmp_path_factory.mktemp("nginx"))
    with nginx.running():
        yield nginx


@pytest.fixture
def engines() -> Iterator[StandIns]:
    with running(*HOSTS) as engines:
        yield engines


def tell(nginx: Nginx, *hosts: str) -> None:
    nginx.know(*hosts)
    wait_until("nginx to know", lambda: nginx.knows() == set(hosts) and answers(), 60)
    # Until then its workers with the former list took connections.
    wait_until("all its workers to know", lambda: set(who_serves(URL, SESSIONS).values()) == set(hosts), 60)


def answers() -> bool:
    try:
        return httpx.get(f"{URL}/nginx-health").is_success
    except httpx.TransportError:
        return False


@pytest.mark.usefixtures("engines")
def test_it_isnt_ready_before_there_is_an_engine(nginx: Nginx) -> None:
    assert not answers()
    tell(nginx, *HOSTS[:2])


@pytest.mark.usefixtures("engines")
def test_only_those_sessions_move_that_a_new_engine_gets(nginx: Nginx) -> None:
    tell(nginx, *HOSTS[:2])
    before = who_serves(URL, SESSIONS)
    tell(nginx, *HOSTS)
    after = who_serves(URL, SESSIONS)
    assert all(after[session] in {host, HOSTS[2]} for session, host in before.items())
    assert who_serves(URL, SESSIONS) == after


def test_an_engine_that_dies_breaks_the_streams_that_it_was_sending_and_nothing_else(
    nginx: Nginx, engines: StandIns
) -> None:
    tell(nginx, *HOSTS)
    served, before = who_serves(URL, SESSIONS), nginx.retries()
    victim = busiest(served)
    with Load(URL, SESSIONS) as load:
        wait_until("answers", load.answers_more(2 * len(SESSIONS)), 60)
        engines.kill(victim)
        wait_until("answers", load.answers_more(4 * len(SESSIONS)), 60)
        nginx.know(*(host for host in HOSTS if host != victim))
        wait_until("nginx to know", lambda: victim not in nginx.knows(), 60)
        wait_until("answers", load.answers_more(4 * len(SESSIONS)), 60)
        engines.start(victim)
        nginx.know(*HOSTS)
        wait_until("nginx to know", lambda: victim in nginx.knows(), 60)
        wait_until("answers", load.answers_more(2 * len(SESSIONS)), 60)

    retried = nginx.retries() - before
    print(*load.tally.figures("nginx.kill", retried), sep="\n")
    assert load.tally.count(End.HUNG) == load.tally.count(End.REFUSED) == 0, load.tally
    broken = [each for each in load.tally.ended if each.end is End.BROKEN]
    assert all(each.streamed and served[each.session] == victim for each in broken), load.tally
    assert retried > 0
    wait_until("all sessions to be where they were", lambda: who_serves(URL, SESSIONS) == served, 60)


def test_a_server_that_fails_every_turn_is_noticed_by_no_client_and_moves_no_session_of_the_others(
    nginx: Nginx, engines: StandIns
) -> None:
    tell(nginx, *HOSTS)
    served, before = who_serves(URL, SESSIONS), nginx.retries()
    victim = busiest(served)
    engines.start(victim, fails=True)
    with Load(URL, SESSIONS) as load:
        wait_until("answers", load.answers_more(12 * len(SESSIONS)), 100)

    retried = nginx.retries() - before
    print(*load.tally.figures("nginx.5xx", retried), sep="\n")
    assert load.tally.count(End.ANSWERED) == len(load.tally.ended), load.tally
    assert retried > 0
    now = who_serves(URL, SESSIONS)
    assert all(now[session] == host for session, host in served.items() if host != victim)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses", "/v1/messages"])
def test_whatever_was_asked_of_an_engine_that_died_is_asked_of_another(
    nginx: Nginx, engines: StandIns, path: str
) -> None:
    tell(nginx, *HOSTS)
    served = who_serves(URL, SESSIONS)
    victim = busiest(served)
    engines.kill(victim)
    assert ask(URL, SESSIONS[list(served.values()).index(victim)], path).status_code == 200


@pytest.mark.usefixtures("engines")
def test_tokens_are_passed_on_as_they_come(nginx: Nginx) -> None:
    tell(nginx, *HOSTS)
    message = {"role": "user", "content": "Go on"}
    body = {"model": MODEL_NAME, "messages": [message], "max_tokens": 5, "stream": True, "stalls": True}
    with httpx.stream("POST", f"{URL}/v1/chat/completions", json=body, timeout=30.0) as response:
        assert next(response.iter_lines()).startswith("data: ")


@pytest.mark.usefixtures("engines")
def test_answers_under_way_come_to_their_end_when_it_is_told_to_end(nginx: Nginx) -> None:
    tell(nginx, *HOSTS)
    with Load(URL, SESSIONS) as load:
        wait_until("answers", load.answers_more(2 * len(SESSIONS)), 60)
        nginx.end()
        wait_until("it to take no more", lambda: load.tally.count(End.REFUSED) > 0, 60)

    assert load.tally.count(End.BROKEN) == load.tally.count(End.HUNG) == 0, load.tally
    wait_until("it to end", lambda: nginx.process is not None and nginx.process.poll() == 0, 60)
