# SPDX-License-Identifier: Apache-2.0
"""A key takes the place of another between engines that run, over real sockets."""

import base64
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tandem_connector.contract.keys import ExchangeKey
from tandem_connector.contract.messages import Cancel, Message, encode
from tandem_connector.contract.types import WantId
from tandem_connector.exchange.types import EngineId
from tandem_connector.vllm.key_file import KeyFile
from tandem_connector.vllm.keyring import Keyring, Keys
from tandem_connector.vllm.keys import CurveKeys
from tandem_connector.vllm.network.events import PeerJoined, Received
from tests.network.builders import PATIENCE, Engine, Stage, a_hello, a_socket_at, envelope, introduce, keys


def heard(engine: Engine, message: Message) -> bool:
    engine.told += engine.network.take()
    return any(isinstance(event, Received) and event.envelope.message == message for event in engine.told)


def speak(one: Engine, other: Engine, number: int) -> None:
    """Both ways, until it comes: what is sent while a connection is made anew is lost, and said again."""
    message = Cancel(WantId(number))
    for sender, target in ((one, other), (other, one)):

        def arrives(sender: Engine = sender, target: Engine = target) -> bool:
            sender.network.send(target.name, message)
            return heard(target, message)

        target.until(arrives)


def test_engines_that_change_their_keys_one_after_the_other_go_on_speaking(locked: Stage) -> None:
    one, other = locked.pair()
    assert locked.keys is not None
    old, new = locked.keys, keys()
    speak(one, other, 1)
    one.network.set_keys(Keys(old, (old, new)))
    speak(one, other, 2)
    other.network.set_keys(Keys(old, (old, new)))
    speak(one, other, 3)
    one.network.set_keys(Keys(new, (new, old)))
    speak(one, other, 4)
    other.network.set_keys(Keys(new, (new, old)))
    speak(one, other, 5)
    for engine in (one, other):
        engine.network.set_keys(Keys.only(new))
    speak(one, other, 6)
    assert one.kinds(PeerJoined) == other.kinds(PeerJoined) == 1


def test_whoever_has_only_the_former_key_is_not_let_in_any_more(locked: Stage) -> None:
    one, other = locked.pair()
    assert locked.keys is not None
    old, new = locked.keys, keys()
    for engine in (one, other):
        engine.network.set_keys(Keys(new, (new, old)))
    speak(one, other, 1)
    asked = encode(envelope("new", "one-before", a_hello()))
    with a_socket_at(one, own=old, server=old) as late, a_socket_at(one, own=new, server=new) as known:
        late.send(asked)
        known.send(asked)
        assert EngineId("one-before").encode() in known.recv()
        assert not late.poll(1_000)


def test_an_engine_that_starts_with_both_keys_joins_those_that_have_changed_and_those_that_have_not(
    locked: Stage,
) -> None:
    assert locked.keys is not None
    old, new = locked.keys, keys()
    changed = locked.engine("changed", keys=Keys(new, (new, old)))
    unchanged = locked.engine("unchanged", keys=Keys(old, (old, new)))
    fresh = locked.engine("fresh", keys=Keys(old, (old, new)))
    introduce(changed, unchanged, fresh)
    speak(fresh, changed, 1)
    speak(fresh, unchanged, 2)


@pytest.fixture
def files(tmp_path: Path) -> Iterator[list[KeyFile]]:
    open_: list[KeyFile] = []
    yield open_
    for each in open_:
        each.close()


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_file_that_changes_is_followed_and_one_that_is_spoilt_or_gone_changes_nothing(
    tmp_path: Path, files: list[KeyFile], caplog: pytest.LogCaptureFixture
) -> None:
    old, new = ExchangeKey.generate(), ExchangeKey.generate()
    path, told = tmp_path / "exchange.json", list[Keys]()
    path.write_text(old.to_file())
    keyring = Keyring(old, time.monotonic(), overlap=0.5)
    files.append(KeyFile(path, keyring, keyring.at(time.monotonic()), told.append, every=0.02))
    path.write_text("spoilt")
    until(lambda: "holds no key" in caplog.text)
    path.unlink()
    until(lambda: "No such file" in caplog.text)
    assert told == []
    path.write_text(new.to_file())
    until(lambda: len(told) == 3)
    before, after = CurveKeys.of(old), CurveKeys.of(new)
    assert told == [Keys(before, (before, after)), Keys(after, (after, before)), Keys.only(after)]
    assert old.secret_key not in caplog.text
    assert new.secret_key not in caplog.text


def test_the_documents_command_makes_a_key_that_names_its_predecessor() -> None:
    former = ExchangeKey.generate()
    document = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
    script = document.split("python3 -c '", 1)[1].split("'", 1)[0]
    secret = {"data": {"exchange.json": base64.b64encode(former.to_file().encode()).decode()}}
    patch = json.loads(
        subprocess.run(
            [sys.executable, "-c", script], input=json.dumps(secret), capture_output=True, text=True, check=True
        ).stdout
    )
    key = ExchangeKey.model_validate_json(patch["stringData"]["exchange.json"])
    assert key.previous_secret_key == former.secret_key != key.secret_key
