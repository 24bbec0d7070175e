# SPDX-License-Identifier: Apache-2.0
"""Engines with the resource's key exchange as those without do; who has another key, or none, is not spoken with."""

from pathlib import Path

import pytest
import zmq

from e2e.cluster.progress import wait_until
from e2e.conversation import held
from e2e.engine.environment import build_environment
from e2e.engine.model import MODEL_NAME
from e2e.exchange.afterwards import metrics_now, nothing_is_held
from e2e.exchange.engine import BLOCK_SIZE, Engine, EngineSpec
from e2e.exchange.numbers import value_of
from e2e.exchange.ports import Ports
from e2e.exchange.prompts import Prompt, ask
from e2e.exchange.rogue import a_connection
from e2e.suite.exchange.conftest import CROWD, Reference
from e2e.suite.exchange.three.conftest import Three, tell_decode
from tandem_connector.contract.keys import ExchangeKey
from tandem_connector.contract.messages import Cancel, Envelope, Purpose, encode
from tandem_connector.contract.types import EngineId, EngineState, Role, WantId
from tandem_connector.vllm.keys import CurveKeys, load_key
from tandem_connector.vllm.settings import HOST_VARIABLE


def test_a_conversation_with_a_key_is_what_it_is_without(three: Three, reference: Reference) -> None:
    turns = list(held(three.decode.url, MODEL_NAME, session="locked"))
    assert [turn.text for turn in turns] == [turn.text for turn in reference.conversation]
    for account in three.decode.turns()[-3:]:
        assert account["received"] == {
            "forward": (account["prompt"] - 1) // BLOCK_SIZE * BLOCK_SIZE - account["cached"]
        }
    computed = [account["computed"] for account in three.prefill.turns()[-3:]]
    answered = [turn.prompt_tokens + turn.output_tokens for turn in turns]
    new = [turn.prompt_tokens - before for turn, before in zip(turns, [0, *answered[:-1]], strict=True)]
    assert [have <= need + BLOCK_SIZE for have, need in zip(computed, new, strict=True)] == [True] * 3


def test_what_went_over_each_pair_is_what_both_its_ends_say_and_sums_up_to_what_each_engine_says(three: Three) -> None:
    """What prefill computes goes to each decode engine, and what that answers back."""
    prefill, decodes = three.prefill, (three.decode, three.other)
    for decode, prompt in zip(decodes, (Prompt(301, 500), Prompt(302, 900)), strict=True):
        ask(decode, prompt.ids(three.model), output=3 * BLOCK_SIZE)
    nothing_is_held(prefill, *decodes, within=30.0)
    texts = {engine.name: metrics_now(engine) for engine in (prefill, *decodes)}
    for decode in decodes:
        for writer, receiver, purpose in (
            (prefill.name, decode.name, "forward"),
            (decode.name, prefill.name, "reverse_push"),
        ):
            written = value_of(texts[writer], "tandem_peer_bytes_written_total", peer=receiver, purpose=purpose)
            received = value_of(texts[receiver], "tandem_peer_bytes_received_total", peer=writer, purpose=purpose)
            assert written == received > 0, f"{writer} to {receiver}"
    for text in texts.values():
        for purpose in Purpose:
            for what in ("received", "written"):
                of_peers = value_of(text, f"tandem_peer_bytes_{what}_total", purpose=purpose)
                assert of_peers == value_of(text, f"tandem_bytes_{what}_total", purpose=purpose)


def test_nothing_of_somebody_with_another_key_is_read(three: Three, reference: Reference) -> None:
    decode, other = three.decode, CurveKeys.of(ExchangeKey.generate())
    before = value_of(decode.metrics(), "tandem_network_messages_total", what="denied")
    with zmq.Context() as context, a_connection(context, decode, other, three.keys) as stranger:
        stranger.sndtimeo = 1_000
        message = encode(Envelope(three.prefill.id, decode.id, Cancel(WantId(1))))
        with pytest.raises(zmq.Again):
            stranger.send(message)
    answer = ask(decode, CROWD[0].ids(three.model))
    assert reference.is_right(CROWD[0], answer.text)
    assert "forward" in answer.account["received"]
    assert value_of(decode.metrics(), "tandem_network_messages_total", what="denied") > before


def test_a_prefill_engine_that_cannot_prove_the_key_is_not_asked(three: Three, reference: Reference) -> None:
    """It is real, it answers HTTP, but at its side channel's address somebody has another key."""
    decode, engines = three.decode, three.engines
    with zmq.Context() as context, context.socket(zmq.ROUTER) as impostor:
        own = CurveKeys.of(ExchangeKey.generate())
        impostor.curve_server = True
        impostor.curve_publickey, impostor.curve_secretkey = own.public, own.secret
        port = impostor.bind_to_random_port("tcp://127.0.0.1")
        peer = three.prefill.as_peer()
        address = peer.address.model_copy(update={"side_channel_port": port})
        wrong = peer.model_copy(update={"engine": EngineId("impostor-1"), "pod": "impostor", "address": address})
        tell_decode(three, *engines.peers_of(decode, prefill=EngineState.DRAINING), wrong)
        answer = ask(decode, CROWD[1].ids(three.model))
        assert reference.is_right(CROWD[1], answer.text)
        assert (answer.account["local"], answer.account["received"]) == ("no_peer", {})
        assert not impostor.poll(0)
    tell_decode(three, *engines.peers_of(decode))
    nothing_is_held(three.prefill, decode, within=30.0)


def test_engines_take_up_another_key_while_conversations_go_on(three: Three, reference: Reference) -> None:
    everybody = (three.prefill, three.decode, three.other)
    one = load_key(three.key_file)
    other = ExchangeKey.generate()
    for number, (key, former) in enumerate(((other, one), (one, other)), start=1):
        both = key.model_copy(update={"previous_secret_key": former.secret_key})
        _replace(three.key_file, both)
        turns = list(held(three.decode.url, MODEL_NAME, session=f"rotating-{number}"))
        assert [turn.text for turn in turns] == [turn.text for turn in reference.conversation]
        wait_until(
            "all to listen with the new key",
            lambda times=number: all(_logged(engine, "listening=new") == times for engine in everybody),  # type: ignore[misc]
            60.0,
        )
        wait_until("decode to have its peers again", lambda: "forward" in _asked(three, reference), 30.0, every=0.5)
    _replace(three.key_file, one)
    wait_until("all to know one key", lambda: all(_logged(engine, "known=1 ") for engine in everybody), 60.0)
    assert "forward" in _asked(three, reference)
    nothing_is_held(three.prefill, three.decode, within=30.0)


def _replace(path: Path, key: ExchangeKey) -> None:
    """As a kubelet does, in one step."""
    fresh = path.with_suffix(".new")
    fresh.write_text(key.to_file())
    fresh.replace(path)


def _logged(engine: Engine, what: str) -> int:
    lines = engine.log.read_text(errors="replace").splitlines()
    return sum("keys_changed" in line and what in line for line in lines)


def _asked(three: Three, reference: Reference) -> dict[str, int]:
    """How many tokens decode received for a prompt that it no longer has, by why."""
    three.decode.post("/reset_prefix_cache")
    answer = ask(three.decode, CROWD[2].ids(three.model))
    assert reference.is_right(CROWD[2], answer.text)
    received: dict[str, int] = answer.account["received"]
    return received


def test_without_a_key_an_engine_that_others_could_reach_does_not_start(model: Path, tmp_path: Path) -> None:
    spec = EngineSpec(Role.DECODE, core="1", environment={HOST_VARIABLE: "0.0.0.0"})
    engine = Engine("open", spec, build_environment(), model, tmp_path, ports=Ports.free())
    try:
        wait_until("the engine to end", lambda: not engine.alive, 180.0, every=0.5)
    finally:
        engine.stop()
    assert "the exchange may not listen on 0.0.0.0" in engine.log.read_text(errors="replace")
