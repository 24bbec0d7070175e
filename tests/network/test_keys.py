# SPDX-License-Identifier: Apache-2.0
"""The key file, and what is read without its key: nothing."""

from pathlib import Path

import pytest
from zmq.utils import z85

from tandem_connector.contract.keys import ExchangeKey
from tandem_connector.contract.messages import Cancel, encode
from tandem_connector.contract.types import WantId
from tandem_connector.exchange.types import EngineId
from tandem_connector.vllm.keyring import Keys
from tandem_connector.vllm.keys import CurveKeys, KeyFileError, load_key
from tandem_connector.vllm.network.endpoint import Endpoint
from tests.network.builders import Stage, a_hello, a_socket_at, envelope, keys, table


def test_a_generated_key_is_read_back(tmp_path: Path) -> None:
    key = ExchangeKey.generate()
    path = tmp_path / "a key.json"
    path.write_text(key.to_file())
    assert load_key(path) == key
    assert key != ExchangeKey.generate()


def test_the_public_half_is_curve25519s() -> None:
    """RFC 7748, section 6.1: Alice's key pair."""
    alice = ExchangeKey(secret_key="77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a")
    public = "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"
    assert z85.decode(CurveKeys.of(alice).public).hex() == public


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("", "Invalid JSON"),
        ("{}", "secretKey: Field required"),
        ('{"version": 2, "secretKey": "' + "0" * 64 + '"}', "version: Input should be 1"),
        ('{"secretKey": "' + "f00d" * 15 + '"}', "secretKey: String should match pattern"),
        ('{"secretKey": "' + "0" * 64 + '", "more": 1}', "more: Extra inputs are not permitted"),
        ("[" * 100_000, "Invalid JSON"),
    ],
)
def test_a_file_that_holds_no_key_is_refused_by_name(tmp_path: Path, content: str, what: str) -> None:
    path = tmp_path / "exchange.json"
    path.write_text(content)
    with pytest.raises(KeyFileError, match=what) as error:
        load_key(path)
    text = str(error.value)
    assert str(path) in text
    assert "TANDEM_KEYS_FILE" in text
    assert "delete the Secret" in text
    assert "f00d" not in text


def test_a_missing_key_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError, match=r"absent\.json: No such file or directory; TANDEM_KEYS_FILE must name"):
        load_key(tmp_path / "absent.json")


def test_a_key_is_not_shown() -> None:
    key = ExchangeKey.generate()
    shown = f"{key!r} {key} {CurveKeys.of(key)!r}"
    assert key.secret_key not in shown
    assert CurveKeys.of(key).secret.decode() not in shown


def test_engines_with_the_same_key_speak(locked: Stage) -> None:
    one, other = locked.pair()
    one.network.send(other.name, Cancel(WantId(1)))
    other.receives(Cancel(WantId(1)))
    assert one.network.counts.denied == other.network.counts.denied == 0


def test_with_keys_an_engine_listens_on_any_address(locked: Stage) -> None:
    one = locked.engine("one", at=Endpoint("0.0.0.0", 0))
    other = locked.engine("other")
    one.network.set_peers(table(other))
    other.network.set_peers({one.name: Endpoint("127.0.0.1", one.network.endpoint.port)})
    one.until(lambda: one.network.stages().get(other.name) == "joined")


def test_who_knows_where_to_connect_and_has_another_key_is_denied(locked: Stage) -> None:
    one, other = locked.pair()
    with a_socket_at(one, own=keys(), server=locked.keys) as socket:
        socket.send(encode(envelope("other", "one", Cancel(WantId(1))))) if socket.poll(0, 2) else None
        one.until(lambda: one.network.counts.denied > 0)
    other.network.send(one.name, Cancel(WantId(2)))
    one.receives(Cancel(WantId(2)))
    assert [event for event in one.told if getattr(event, "envelope", None)] == [one.receives(Cancel(WantId(2)))]


@pytest.mark.parametrize("own", [None, Keys.only(keys())], ids=["no key", "another resource's key"])
def test_engines_without_the_resources_key_are_not_heard_and_hear_nothing(locked: Stage, own: Keys | None) -> None:
    one, other = locked.pair()
    outsider = locked.engine("outsider", keys=own)
    received = one.network.counts.received
    everybody = table(one, other, outsider)
    for engine in (one, other, outsider):
        engine.network.set_peers(everybody)
    one.network.send(other.name, Cancel(WantId(1)))
    other.receives(Cancel(WantId(1)))
    one.until(lambda: one.network.counts.received > received + 20)
    assert set(outsider.network.stages().values()) == {"greeting"}
    assert one.network.stages() == {other.name: "joined", outsider.name: "greeting"}
    assert (one.network.counts.strangers, one.network.counts.garbage) == (0, 0)
    assert (outsider.network.counts.received, outsider.network.counts.sent) == (0, 0)


def test_an_engine_that_is_not_in_the_table_is_not_heard_even_with_the_key(locked: Stage) -> None:
    one, other = locked.pair()
    third = locked.engine("third")
    third.network.set_peers(table(one))
    one.until(lambda: one.network.counts.strangers > 1)
    assert one.network.stages() == {other.name: "joined"}
    assert third.network.stages() == {one.name: "greeting"}


def test_a_stranger_with_the_key_is_answered_for_an_ended_incarnation(locked: Stage) -> None:
    one, _other = locked.pair()
    assert locked.keys is not None
    with a_socket_at(one, own=locked.keys, server=locked.keys) as socket:
        socket.send(encode(envelope("new", "one-before", a_hello())))
        assert EngineId("one-before").encode() in socket.recv()
