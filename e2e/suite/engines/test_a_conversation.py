# SPDX-License-Identifier: Apache-2.0
"""A conversation through prefill and decode says what one plain engine says, also when an engine goes."""

import uuid

from e2e.cluster.progress import wait_until
from e2e.conversation import SCRIPT, Conversation, Turn, held
from e2e.demo.run import wait_until_ready
from e2e.engine.model import MODEL_NAME
from e2e.installation import engine_pods, front_door, pools_account
from e2e.suite.engines.conftest import Deployment
from tandem_connector.contract.peers import PeerTable


def peer_table(deployment: Deployment, pod: str) -> PeerTable:
    """The table that the engine of this pod can read, from the file in its container."""
    text = deployment.kubectl.run("exec", pod, "-c", "engine", "--", "cat", "/etc/tandem/peers/peers.json")
    return PeerTable.model_validate_json(text)


def test_its_text_equals_that_of_one_plain_engine_and_decode_computes_almost_none_of_the_prompts(
    deployment: Deployment, reference: list[Turn]
) -> None:
    before = pools_account(deployment.kubectl, deployment.name)
    with front_door(deployment.cluster, deployment.kubectl, deployment.name) as url:
        turns = list(held(url, MODEL_NAME, session=uuid.uuid4().hex))
    account = pools_account(deployment.kubectl, deployment.name).since(before)

    assert [turn.text for turn in turns] == [turn.text for turn in reference]
    assert [turn.prompt_tokens for turn in turns] == [turn.prompt_tokens for turn in reference]
    prompts = sum(turn.prompt_tokens for turn in turns)
    assert account.prefill.computed + account.prefill.cached == prompts
    # What decode neither had nor received, it computed: with upstream's pull at most one token for each turn.
    assert account.decode.computed <= len(turns)
    assert account.decode.received_bytes > 0


def test_each_engine_reads_of_its_peer_by_its_pods_uid_from_its_own_file(deployment: Deployment) -> None:
    (prefill,), (decode,) = (engine_pods(deployment.kubectl, deployment.name, role) for role in ("prefill", "decode"))

    for here, there in ((prefill, decode), (decode, prefill)):
        (peer,) = peer_table(deployment, here["metadata"]["name"]).peers
        assert peer.engine.startswith(there["metadata"]["uid"])
        assert peer.address.host == there["status"]["podIP"]
        assert peer.state == "ready"


def test_it_goes_on_after_the_prefill_pod_was_deleted_and_the_peer_tables_generation_moved(
    deployment: Deployment, reference: list[Turn]
) -> None:
    (decode,) = engine_pods(deployment.kubectl, deployment.name, "decode")
    decode_name = decode["metadata"]["name"]
    generation = peer_table(deployment, decode_name).generation
    with front_door(deployment.cluster, deployment.kubectl, deployment.name) as url:
        conversation = Conversation(url, MODEL_NAME, session=uuid.uuid4().hex)
        texts = [conversation.say(SCRIPT[0]).text]

        (prefill,) = engine_pods(deployment.kubectl, deployment.name, "prefill")
        deployment.kubectl.delete("pod", prefill["metadata"]["name"])
        replacement = wait_until(
            "another prefill pod",
            lambda: [
                pod
                for pod in engine_pods(deployment.kubectl, deployment.name, "prefill")
                if pod["metadata"]["uid"] != prefill["metadata"]["uid"]
            ],
            120,
        )[0]
        wait_until_ready(deployment.kubectl, deployment.name)
        table = wait_until(
            "the decode engine to know it",
            lambda: next(
                (
                    table
                    for table in [peer_table(deployment, decode_name)]
                    if [peer.engine[:36] for peer in table.peers] == [replacement["metadata"]["uid"]]
                ),
                None,
            ),
            60,
        )
        texts += [conversation.say(text).text for text in SCRIPT[1:]]
        conversation.close()

    assert table.generation > generation
    assert texts == [turn.text for turn in reference]
    assert engine_pods(deployment.kubectl, deployment.name, "decode")[0]["metadata"]["uid"] == decode["metadata"]["uid"]
