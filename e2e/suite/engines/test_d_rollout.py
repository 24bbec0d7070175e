# SPDX-License-Identifier: Apache-2.0
"""A change that needs new engines, on real ones, while clients talk: no answer breaks, and conversations go on where they were."""

import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from e2e.cluster.interface import Cluster
from e2e.cluster.progress import wait_until
from e2e.conversation import SCRIPT, Conversation, Turn, held
from e2e.engine.environment import build_environment
from e2e.engine.model import MODEL_NAME, cached_model
from e2e.installation import condition, engine_pods, front_door, pools_account, settled_account
from e2e.kubectl import Kubectl
from e2e.logs import logs_if_it_fails
from e2e.ready import READY_WITHIN, wait_until_ready
from e2e.sample import cpu_resource
from e2e.suite.engines.conftest import Deployment
from e2e.suite.engines.test_a_conversation import BLOCK
from tandem_operator.api.names import KIND, REVISION_LABEL

pytestmark = pytest.mark.long

NAME = "roll"
PAUSE = 5.0
"""Seconds between an answer and the next turn, so that engines that start get their share of two cores."""


@contextmanager
def rolling(cluster: Cluster) -> Iterator[Deployment]:
    """A pair of engines of its own, with which the operator converses; gone afterwards."""
    kubectl = Kubectl(cluster)
    resource = cpu_resource(cluster.facts(), build_environment(), cached_model(), name=NAME)
    resource["spec"]["verification"] = {"enabled": True}
    kubectl.apply(resource)
    try:
        with logs_if_it_fails(kubectl, NAME):
            wait_until_ready(kubectl, NAME)
            yield Deployment(cluster, kubectl, resource)
    finally:
        kubectl.delete("pdi", NAME, "--wait=true")


@contextmanager
def talk(url: str) -> Iterator[Future[list[list[Turn]]]]:
    """Somebody has the scripted conversation over and over, until the end of this."""
    is_over = threading.Event()

    def speak() -> list[list[Turn]]:
        spoken = []
        while not is_over.is_set():
            turns = []
            for turn in held(url, MODEL_NAME, session=uuid.uuid4().hex):
                turns.append(turn)
                is_over.wait(PAUSE)
            spoken.append(turns)
        return spoken

    with ThreadPoolExecutor(1) as pool:
        try:
            yield pool.submit(speak)
        finally:
            is_over.set()


def revisions(deployment: Deployment) -> dict[str, str]:
    """By UID of each engine's pod."""
    pods = engine_pods(deployment.kubectl, deployment.name)
    return {pod["metadata"]["uid"]: pod["metadata"]["labels"][REVISION_LABEL] for pod in pods}


def roll_out(deployment: Deployment) -> int:
    """Change an argument that needs new engines and wait until these are alone; the most engines that there were at one time."""
    before, most = set(revisions(deployment)), 0
    arguments: list[str] = deployment.resource["spec"]["engine"]["args"]
    changed = ["--max-num-seqs=6" if each.startswith("--max-num-seqs=") else each for each in arguments]
    assert changed != arguments
    deployment.edit({"engine": {"args": changed}})

    def is_done() -> bool:
        nonlocal most
        present = set(revisions(deployment))
        most = max(most, len(present))
        return len(present) == 2 and not before & present

    wait_until("the new engines alone", is_done, READY_WITHIN)
    wait_until_ready(deployment.kubectl, deployment.name)
    return most


def events(deployment: Deployment) -> set[str]:
    """Reasons of those of the resource."""
    found = deployment.kubectl.list("events.v1.")
    about = [event for event in found if event["involvedObject"]["kind"] == KIND]
    return {event["reason"] for event in about if event["involvedObject"]["name"] == deployment.name}


def test_a_roll_out_breaks_no_answer_and_conversations_go_on_where_they_were(
    cluster: Cluster, reference: list[Turn]
) -> None:
    with rolling(cluster) as deployment, front_door(cluster, deployment.kubectl, NAME) as url:
        kubectl = deployment.kubectl
        (old,) = set(revisions(deployment).values())
        # With a system prompt of its own it shares no block with the others.
        conversation = Conversation(url, MODEL_NAME, session=uuid.uuid4().hex, system=f"{uuid.uuid4()} is on watch.")
        first = conversation.say(SCRIPT[0])
        with talk(url) as others:
            most = roll_out(deployment)
        spoken = others.result()

        before = pools_account(kubectl, NAME)
        second = conversation.say(SCRIPT[1])
        conversation.close()
        cost = settled_account(lambda: pools_account(kubectl, NAME), before, second.prompt_tokens).since(before)
        (new,) = set(revisions(deployment).values())
        status, reason, message = condition(kubectl.get("pdi", NAME) or {}, "KVTransferVerified")
        told = events(deployment)

    assert new != old
    assert most == 4, "two beside two"
    assert {"RollingOut", "Verified"} <= told
    assert not {"RolledBack", "ProgressDeadline"} & told
    assert spoken
    assert all([turn.text for turn in turns] == [turn.text for turn in reference] for turns in spoken)
    # The last token that was said has no KV yet.
    had = (first.prompt_tokens + first.output_tokens - 1) // BLOCK * BLOCK
    assert had > 0
    assert cost.decode.cached == had
    assert cost.prefill.cached == had
    assert (status, reason) == ("True", "Verified"), message
