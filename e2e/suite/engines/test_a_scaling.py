# SPDX-License-Identifier: Apache-2.0
"""Engines of both roles go while streams run through the front door: no stream breaks, and what conversations held is moved or, when
that is switched off, computed again, to the token."""

import threading
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from e2e.account import EngineAccount, PoolsAccount
from e2e.chaos.topology.carry_out import drain, taint
from e2e.cluster.progress import wait_until
from e2e.conversation import Conversation, Turn
from e2e.engine.model import MODEL_NAME
from e2e.exchange.numbers import value_of
from e2e.installation import ENGINE_PORT, engine_pods, front_door, pools_account, settled_account
from e2e.logs import followed_if_it_fails
from e2e.ready import wait_until_ready
from e2e.suite.engines.conftest import Deployment
from e2e.suite.engines.test_a_conversation import BLOCK, BLOCK_BYTES, peer_table
from tandem_connector.contract.types import EngineState
from tandem_operator.api.names import PEERS_ANNOTATION

LONG = "; ".join(f"session {7919 * number % 10007} went back to prefill-{number % 5}" for number in range(10))
"""Some 300 tokens."""
ANSWER = 300
"""Tokens of each open stream: they take longer than the front door needs to forget an engine."""


@dataclass(frozen=True)
class Held:
    """A conversation after its first turn, and which pods have it."""

    conversation: Conversation
    session: str
    turn: Turn

    @property
    def tokens(self) -> int:
        """In full blocks; the last token that was said has no KV yet."""
        return (self.turn.prompt_tokens + self.turn.output_tokens - 1) // BLOCK * BLOCK


def pod(deployment: Deployment, role: str, ordinal: int) -> str:
    return f"{deployment.name}-{role}-{ordinal}"


def uids(deployment: Deployment) -> set[str]:
    return {each["metadata"]["uid"] for each in engine_pods(deployment.kubectl, deployment.name)}


def knows_all(deployment: Deployment, name: str) -> bool:
    """Whether the engine can read that all three others are ready, and who gets what it holds."""
    table = peer_table(deployment, name)
    return table.heir is not None and [peer.state for peer in table.peers] == [EngineState.READY] * 3


def is_told(deployment: Deployment, name: str) -> bool:
    """Whether the pod's file is its annotation.

    Of two changes within a second a kubelet may show the second one a minute later, when it looks at the pod in any case: its
    volume manager forgets that a volume has to be filled anew when it is just done with filling it.
    """
    manifest = deployment.kubectl.get("pod", name) or {}
    annotation: str = manifest["metadata"]["annotations"][PEERS_ANNOTATION]
    return peer_table(deployment, name).to_annotation() == annotation


def talker(url: str, session: str, *, answer: int = 24) -> Conversation:
    """With a system prompt that nobody else has, so that it shares no block with others."""
    return Conversation(url, MODEL_NAME, session=session, system=f"{uuid.uuid4()} is on watch.", max_tokens=answer)


def asked(deployment: Deployment, name: str) -> int:
    """Prompt tokens that this pod's engine has accounted for."""
    return EngineAccount.parse(deployment.kubectl.pod_http(name, ENGINE_PORT, "/metrics")).prompt


def held_by_the_last(deployment: Deployment, url: str) -> Held:
    """A conversation that the last pod of each role has. Which ones get it is the front door's choice and decode's."""
    prefill, decode = (pod(deployment, role, 1) for role in ("prefill", "decode"))
    session = uuid.uuid4().hex
    for _ in range(24):
        earlier, before = pools_account(deployment.kubectl, deployment.name), asked(deployment, decode)
        of_prefill = asked(deployment, prefill)
        conversation = talker(url, session)
        turn = conversation.say(LONG)
        settled_account(lambda: pools_account(deployment.kubectl, deployment.name), earlier, turn.prompt_tokens)
        if asked(deployment, decode) == before:
            session = uuid.uuid4().hex
        elif asked(deployment, prefill) > of_prefill:
            return Held(conversation, session, turn)
        conversation.close()
    raise AssertionError(f"none of 24 conversations went to {prefill} and {decode}")


@contextmanager
def streams(url: str, sessions: Sequence[str]) -> Iterator[list[Future[Turn]]]:
    """One answer to each, all of which have begun. They are at their ends afterwards."""
    begun = [threading.Event() for _ in sessions]

    def stream(session: str, has_begun: threading.Event) -> Turn:
        conversation = talker(url, session, answer=ANSWER)
        try:
            return conversation.say(LONG, heard=lambda _: has_begun.set())
        finally:
            conversation.close()

    with ThreadPoolExecutor(len(sessions)) as pool:
        answers = [pool.submit(stream, *each) for each in zip(sessions, begun, strict=True)]
        assert all(each.wait(60.0) for each in begun)
        yield answers


def next_turn(deployment: Deployment, held: Held) -> tuple[Turn, PoolsAccount]:
    """The conversation's second turn, and what it cost the engines that are left."""

    def account() -> PoolsAccount:
        names = {role: pod(deployment, role, 0) for role in ("prefill", "decode")}
        metrics = {role: [deployment.kubectl.pod_http(name, ENGINE_PORT, "/metrics")] for role, name in names.items()}
        return PoolsAccount.of(metrics)

    before = account()
    turn = held.conversation.say("And who was on watch then? Name all of them, one after the other, please.")
    held.conversation.close()
    return turn, settled_account(account, before, turn.prompt_tokens).since(before)


@contextmanager
def closed(deployment: Deployment) -> Iterator[None]:
    """No pod starts while it lasts, so that a conversation can't go on at what takes the place of an engine that goes.

    A prefill engine has little to finish, and its replacement may be ready before the streams of decode are at their ends.
    """
    key = "tandem.dev/closed"
    deployment.kubectl.run("taint", "nodes", "--all", f"{key}=:NoSchedule")
    try:
        yield
    finally:
        deployment.kubectl.run("taint", "nodes", "--all", f"{key}:NoSchedule-")


@pytest.fixture(scope="module")
def wide(deployment: Deployment) -> Iterator[Deployment]:
    """With two engines of each role, and with one afterwards."""
    before = uids(deployment)
    deployment.edit({"prefill": {"replicas": 2}, "decode": {"replicas": 2}})
    wait_until("four pods", lambda: len(uids(deployment)) == 4, 60)
    wait_until_ready(deployment.kubectl, deployment.name)
    assert before < uids(deployment)
    yield deployment
    deployment.edit({"prefill": {"replicas": 1}, "decode": {"replicas": 1}, "scaling": None})
    wait_until("two pods", lambda: len(uids(deployment)) == 2, 180)
    wait_until_ready(deployment.kubectl, deployment.name)


def test_pods_that_are_drained_and_tainted_away_break_no_stream_and_their_conversations_go_on_where_they_were(
    wide: Deployment,
) -> None:
    kubectl, goes = wide.kubectl, [pod(wide, "prefill", 1), pod(wide, "decode", 1)]
    wait_until("both to know the other three", lambda: all(knows_all(wide, name) for name in goes), 120)
    with (
        followed_if_it_fails(kubectl, [*goes, pod(wide, "prefill", 0), pod(wide, "decode", 0)]),
        front_door(wide.cluster, kubectl, wide.name) as url,
        closed(wide),
    ):
        held = held_by_the_last(wide, url)
        going = {
            each["metadata"]["uid"] for each in engine_pods(kubectl, wide.name) if each["metadata"]["name"] in goes
        }
        with streams(url, [held.session, held.session, uuid.uuid4().hex]) as answers, ThreadPoolExecutor(2) as hands:
            removals = [
                hands.submit(taint, kubectl, goes[0], "tandem.dev/spot-interruption"),
                hands.submit(drain, kubectl, goes[1]),
            ]
        assert [answer.result().output_tokens for answer in answers] == [ANSWER] * 3
        for removal in removals:
            removal.result()
        assert not going & uids(wide)

        turn, cost = next_turn(wide, held)
        heir = kubectl.pod_http(pod(wide, "decode", 0), ENGINE_PORT, "/metrics")
        assert value_of(heir, "tandem_blocks_received_total", purpose="move") >= held.tokens // BLOCK
        new = turn.prompt_tokens - held.tokens
        assert (cost.prefill.computed, cost.prefill.cached) == (new, held.tokens)
        assert cost.decode.cached == held.tokens
        assert (
            cost.decode.received_bytes
            == (turn.prompt_tokens - 1) // BLOCK * BLOCK_BYTES - held.tokens // BLOCK * BLOCK_BYTES
        )


def test_pods_that_are_scaled_down_without_moving_break_no_stream_and_their_conversations_are_computed_again(
    wide: Deployment,
) -> None:
    kubectl = wide.kubectl
    wait_until_ready(kubectl, wide.name)
    before = uids(wide)
    last = [pod(wide, role, 1) for role in ("prefill", "decode")]
    wait_until("the tables to be read", lambda: all(is_told(wide, name) for name in last), 120)
    wide.edit({"scaling": {"drain": {"migrate": False}}})
    wait_until("no heirs", lambda: not any(peer_table(wide, name).heir for name in last), 120)
    assert uids(wide) == before
    with front_door(wide.cluster, kubectl, wide.name) as url:
        held = held_by_the_last(wide, url)
        with streams(url, [held.session, held.session, uuid.uuid4().hex]) as answers:
            wide.edit({"prefill": {"replicas": 1}, "decode": {"replicas": 1}})
        assert [answer.result().output_tokens for answer in answers] == [ANSWER] * 3
        wait_until("two pods", lambda: len(uids(wide)) == 2, 180)
        first = pod(wide, "prefill", 0)
        wait_until("prefill to know one", lambda: len(peer_table(wide, first).peers) == 1, 60)

        turn, cost = next_turn(wide, held)
    assert (cost.prefill.computed, cost.prefill.cached) == (turn.prompt_tokens, 0)
    assert cost.decode.cached == 0
    assert cost.decode.received_bytes == (turn.prompt_tokens - 1) // BLOCK * BLOCK_BYTES
