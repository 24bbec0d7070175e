# SPDX-License-Identifier: Apache-2.0
"""The front door in pods, vllm-router and then nginx, over two real decode engines of which one fails: what clients notice.

`docs/front-door.md` has a line for each of these. Each begins when both engines answer; the second one fails, and comes back.
"""

import signal
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from e2e.account import PoolsAccount
from e2e.cluster.progress import wait_until
from e2e.conversation import Conversation
from e2e.engine.model import MODEL_NAME
from e2e.front_door.engines import COMPUTES, Engines, Routers
from e2e.front_door.load import End, Load, Tally
from e2e.front_door.nginx_pods import NginxPods
from e2e.images.build import build_image
from e2e.images.catalogue import NGINX
from e2e.installation import engine_pods, front_door, pools_account, settled_account
from e2e.logs import logs_if_it_fails
from e2e.ready import wait_until_ready
from e2e.suite.engines.conftest import Deployment
from e2e.suite.engines.test_a_conversation import BLOCK

pytestmark = pytest.mark.long

PAUSE = 4.0
"""Seconds between an answer and a session's next turn, so that engines that start get their share of two cores."""
BACK_WITHIN = 300.0
"""Seconds for a container to be started again, with an engine that answers, beside others that compute."""
SEEN_WITHIN = 120.0
"""Seconds for a change to be noticed, or for turns to be answered."""
MANY = tuple(f"many-{number}" for number in range(12))
"""Sessions of which each engine gets some, however they are hashed."""


@dataclass(frozen=True)
class Wide:
    """Two replicas of vllm-router, which led clients while the second decode engine started."""

    deployment: Deployment
    url: str
    engines: Engines
    routers: Routers
    victim: str
    """The second decode engine."""
    served: Mapping[str, str]
    """Sessions of each engine, and which one it is."""
    start: Tally
    """How requests ended meanwhile."""

    def wait_until_routers_use(self, engines: int, within: float = SEEN_WITHIN) -> None:
        wait_until(f"the routers to use {engines}", lambda: self.routers.use(engines, replicas=2), within, every=1.0)

    @contextmanager
    def load(self, fault: str) -> Iterator[Load]:
        """Its figures are printed. It begins when both engines are used."""
        self.wait_until_routers_use(2, BACK_WITHIN)
        before = self.routers.retries()
        with Load(self.url, tuple(self.served), pause=PAUSE) as load:
            wait_until("answers", load.answers_more(len(self.served)), SEEN_WITHIN)
            yield load
            wait_until("answers", load.answers_more(len(self.served)), SEEN_WITHIN)
        print(*load.tally.figures(f"pods.{fault}", self.routers.retries() - before), sep="\n")


@pytest.fixture(scope="module")
def wide(deployment: Deployment) -> Iterator[Wide]:
    kubectl, name = deployment.kubectl, deployment.name
    engines, routers = Engines(kubectl, name), Routers(kubectl, name)
    first = engines.names()
    deployment.edit({"frontDoor": {"replicas": 2}})
    try:
        wait_until("two routers", lambda: routers.use(1, replicas=2), SEEN_WITHIN, every=1.0)
        with logs_if_it_fails(kubectl, name), front_door(deployment.cluster, kubectl, name) as url:
            with Load(url, MANY[:4], pause=PAUSE) as load:
                deployment.edit({"decode": {"replicas": 2}})
                wait_until("both routers to use both", lambda: routers.use(2, replicas=2), 600, every=1.0)
                wait_until("answers", load.answers_more(8), SEEN_WITHIN)
            wait_until_ready(kubectl, name)
            (second,) = engines.names() - first
            served = engines.sessions_of_each(url, 2)
            yield Wide(deployment, url, engines, routers, second, served, load.tally)
    finally:
        deployment.edit({"frontDoor": None, "decode": {"replicas": 1}})
        wait_until("two engines", lambda: len(engine_pods(kubectl, name)) == 2, 180)
        wait_until_ready(kubectl, name)


def broken(tally: Tally) -> set[str]:
    """Sessions of answers that were begun and not ended, after a look that nothing worse has happened."""
    assert tally.count(End.HUNG) == tally.count(End.REFUSED) == 0, tally
    found = [each for each in tally.ended if each.end is End.BROKEN]
    assert all(each.streamed for each in found), tally
    return {each.session for each in found}


def test_while_an_engine_starts_every_turn_is_answered(wide: Wide) -> None:
    print(*wide.start.figures("pods.start", wide.routers.retries()), sep="\n")
    assert wide.start.count(End.ANSWERED) == len(wide.start.ended) > 0, wide.start


def test_an_engine_that_freezes_gets_no_new_turns_and_answers_the_old_ones_when_it_thaws(wide: Wide) -> None:
    with wide.load("freeze") as load:
        wide.engines.signal(wide.victim, signal.SIGSTOP)
        try:
            wide.wait_until_routers_use(1)
            wait_until("answers", load.answers_more(len(wide.served)), SEEN_WITHIN)
        finally:
            wide.engines.signal(wide.victim, signal.SIGCONT)
        wide.wait_until_routers_use(2)
    assert load.tally.count(End.ANSWERED) == len(load.tally.ended), load.tally


def test_an_engine_that_is_killed_breaks_its_own_streams_alone_and_has_its_sessions_again_when_it_is_back(
    wide: Wide,
) -> None:
    restarts = wide.engines.restarts(wide.victim)
    with wide.load("kill") as load:
        wide.engines.signal(wide.victim, signal.SIGKILL)
        wide.wait_until_routers_use(1)
        wide.wait_until_routers_use(2, BACK_WITHIN)
    assert {wide.served[session] for session in broken(load.tally)} <= {wide.victim}, load.tally
    assert wide.engines.restarts(wide.victim) == restarts + 1
    wait_until(
        "all sessions to be where they were", lambda: wide.engines.who_serve(wide.url, wide.served) == wide.served, 60
    )


def test_a_conversation_that_goes_round_finds_at_prefill_what_another_engine_has_said(wide: Wide) -> None:
    deployment, former = wide.deployment, wide.routers.names()
    deployment.edit({"frontDoor": {"policy": "round_robin"}})
    wait_until("other routers", lambda: not former & wide.routers.names(), SEEN_WITHIN, every=1.0)
    wide.wait_until_routers_use(2, BACK_WITHIN)

    def account_now() -> PoolsAccount:
        return pools_account(deployment.kubectl, deployment.name)

    # With a system prompt of its own it shares no block with others. What is said is always more than a block.
    conversation = Conversation(
        wide.url, MODEL_NAME, session=uuid.uuid4().hex, system=f"{uuid.uuid4()} is on watch.", max_tokens=2 * BLOCK
    )
    served: list[str] = []
    held = 0
    while len(set(served)) < 2:
        assert len(served) < 6, f"all turns went to {served[0]}"
        before, answered = account_now(), wide.engines.answered()
        turn = conversation.say(f"And what of session {len(served)}? " + "Say it in a few plain words, please. " * 4)
        cost = settled_account(account_now, before, turn.prompt_tokens).since(before)
        served += [name for name, count in wide.engines.answered().items() if count > answered[name]]
        # Whoever has said it, prefill has it.
        assert (cost.prefill.cached, cost.prefill.computed) == (held, turn.prompt_tokens - held)
        assert cost.decode.computed <= BLOCK
        held = (turn.prompt_tokens + turn.output_tokens - 1) // BLOCK * BLOCK
    conversation.close()


def test_an_engine_whose_computing_process_is_killed_breaks_streams_alone(wide: Wide) -> None:
    restarts = wide.engines.restarts(wide.victim)
    with wide.load("5xx") as load:
        wide.engines.signal(wide.victim, signal.SIGKILL, COMPUTES)
        wide.wait_until_routers_use(1)
    broken(load.tally)
    wait_until("its container to be started again", lambda: wide.engines.restarts(wide.victim) > restarts, SEEN_WITHIN)


def test_nginx_leads_to_an_engine_that_comes_back_and_away_from_it_when_it_dies(wide: Wide) -> None:
    deployment, nginx = wide.deployment, NginxPods(wide.deployment.kubectl)
    address = wide.engines.address(wide.victim)
    deployment.cluster.load_image(build_image(NGINX).archive)
    deployment.edit({"frontDoor": {"enabled": False, "replicas": None, "policy": None}})
    with nginx.applied(deployment.name), front_door(deployment.cluster, deployment.kubectl, nginx.service) as url:
        with Load(url, tuple(wide.served), pause=PAUSE) as load:
            # It may still be starting after the test before.
            wait_until("nginx to know both", lambda: nginx.all_know(2), BACK_WITHIN, every=1.0)
            wait_until("answers", load.answers_more(len(wide.served)), SEEN_WITHIN)
        print(*load.tally.figures("pods.nginx-start", nginx.retries()), sep="\n")
        assert load.tally.count(End.ANSWERED) == len(load.tally.ended), load.tally

        retried = nginx.retries()
        with Load(url, MANY, pause=1.25 * PAUSE) as load:
            wait_until("answers", load.answers_more(2 * len(MANY)), SEEN_WITHIN)
            before = nginx.served()
            wide.engines.signal(wide.victim, signal.SIGKILL)
            wait_until("answers", load.answers_more(2 * len(MANY)), SEEN_WITHIN)
        print(*load.tally.figures("pods.nginx-kill", nginx.retries() - retried), sep="\n")
        after = nginx.served()
    theirs = {session: before[session] for session in MANY}
    assert all(len(addresses) == 1 for addresses in theirs.values()), theirs
    its_own = {session for session, addresses in theirs.items() if addresses == {address}}
    assert set() < its_own < set(MANY)
    assert broken(load.tally) <= its_own, load.tally
    assert all(after[session] == theirs[session] for session in set(MANY) - its_own)
