# SPDX-License-Identifier: Apache-2.0
"""A conversation through prefill and decode says what one plain engine says, also when an engine goes."""

import uuid

from e2e.account import PoolsAccount
from e2e.cluster.progress import wait_until
from e2e.conversation import SCRIPT, Conversation, Turn
from e2e.engine.model import MODEL_NAME, Shape
from e2e.installation import engine_pods, front_door, pools_account, settled_account
from e2e.ready import wait_until_ready
from e2e.suite.engines.conftest import Deployment
from tandem_connector.contract.peers import PeerTable


def peer_table(deployment: Deployment, pod: str) -> PeerTable:
    """The table that the engine of this pod can read, from the file in its container."""
    text = deployment.kubectl.run("exec", pod, "-c", "engine", "--", "cat", "/etc/tandem/peers/peers.json")
    return PeerTable.model_validate_json(text)


BLOCK = 32
"""Tokens in a block, as the sample says."""
BLOCK_BYTES = BLOCK * 2 * Shape().layers * Shape().kv_heads * Shape().head * 4
"""Keys and values of all layers, as 32-bit numbers."""


def test_its_text_equals_that_of_one_plain_engine_while_only_what_is_missing_is_computed_and_moved(
    deployment: Deployment, reference: list[Turn]
) -> None:
    turns: list[Turn] = []

    def account_now() -> PoolsAccount:
        return pools_account(deployment.kubectl, deployment.name)

    with front_door(deployment.cluster, deployment.kubectl, deployment.name) as url:
        conversation = Conversation(url, MODEL_NAME, session=uuid.uuid4().hex)
        for number, text in enumerate(SCRIPT):
            before = account_now()
            turn = conversation.say(text)
            after = settled_account(account_now, before, turn.prompt_tokens)
            account = after.since(before)
            # The last token that was said has no KV yet.
            held = (turns[-1].prompt_tokens + turns[-1].output_tokens - 1) // BLOCK if turns else 0

            assert turn.text == reference[number].text
            assert turn.prompt_tokens == reference[number].prompt_tokens
            # Each computes, of what nobody has, less than a block more than it must.
            assert account.prefill.computed == turn.prompt_tokens - held * BLOCK
            assert account.prefill.cached == held * BLOCK
            full = (turn.prompt_tokens - 1) // BLOCK
            assert account.decode.computed == turn.prompt_tokens - full * BLOCK
            assert account.decode.cached == held * BLOCK
            # What moves is what is missing on the other side, to the byte.
            assert account.decode.received_bytes == (full - held) * BLOCK_BYTES
            written = (turn.prompt_tokens + turn.output_tokens - 1) // BLOCK - turn.prompt_tokens // BLOCK
            assert account.prefill.received_bytes == written * BLOCK_BYTES
            turns.append(turn)
        conversation.close()


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
