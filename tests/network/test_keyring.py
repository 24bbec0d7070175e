# SPDX-License-Identifier: Apache-2.0
"""Which keys an engine uses while one takes the place of another."""

from dataclasses import dataclass

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tandem_connector.contract.keys import ExchangeKey
from tandem_connector.vllm.keyring import Keyring, Keys
from tandem_connector.vllm.keys import CurveKeys

OVERLAP = 180.0
REFRESH = 90
"""Seconds that a kubelet takes at most to refresh a file."""
STEP = 10
A, B, C, D = (ExchangeKey(secret_key=digit * 64) for digit in "abcd")


def pair(key: ExchangeKey) -> CurveKeys:
    return CurveKeys.of(key)


def after(key: ExchangeKey, before: ExchangeKey) -> ExchangeKey:
    return key.model_copy(update={"previous_secret_key": before.secret_key})


def test_a_single_key_is_used_for_good() -> None:
    keyring = Keyring(A, 0.0, overlap=OVERLAP)
    assert keyring.at(0.0) == keyring.at(1e6) == Keys.only(pair(A))


def test_a_new_key_is_known_at_once_listened_with_later_and_the_former_forgotten_after_that() -> None:
    keyring = Keyring(A, 0.0, overlap=OVERLAP)
    keyring.read(B, 1_000.0)
    assert keyring.at(1_000.0) == keyring.at(1_179.0) == Keys(pair(A), (pair(A), pair(B)))
    assert keyring.at(1_180.0) == keyring.at(1_359.0) == Keys(pair(B), (pair(B), pair(A)))
    assert keyring.at(1_360.0) == Keys.only(pair(B))


def test_an_engine_that_starts_with_a_key_that_names_its_predecessor_listens_with_that_at_first() -> None:
    keyring = Keyring(after(B, A), 0.0, overlap=OVERLAP)
    assert keyring.at(0.0) == Keys(pair(A), (pair(A), pair(B)))
    assert keyring.at(180.0).listening == pair(B)


def test_a_predecessor_is_known_as_long_as_the_file_names_it_and_a_while_longer() -> None:
    keyring = Keyring(A, 0.0, overlap=OVERLAP)
    keyring.read(after(B, A), 0.0)
    keyring.read(after(B, A), 5_000.0)
    assert keyring.at(5_000.0) == Keys(pair(B), (pair(B), pair(A)))
    keyring.read(B, 6_000.0)
    assert keyring.at(6_179.0) == Keys(pair(B), (pair(B), pair(A)))
    assert keyring.at(6_180.0) == Keys.only(pair(B))


def test_a_second_new_key_waits_for_its_own_turn() -> None:
    keyring = Keyring(A, 0.0, overlap=OVERLAP)
    keyring.read(B, 0.0)
    keyring.read(C, 100.0)
    assert [keyring.at(now).listening for now in (179.0, 180.0, 279.0, 280.0)] == [pair(A), pair(B), pair(B), pair(C)]


def test_an_edit_back_returns_to_the_former_key() -> None:
    keyring = Keyring(A, 0.0, overlap=OVERLAP)
    keyring.read(B, 0.0)
    keyring.read(A, 10.0)
    assert keyring.at(190.0).listening == pair(A)
    assert keyring.at(1_000.0) == Keys.only(pair(A))


def test_the_next_key_is_tried_in_turn() -> None:
    keys = Keys(pair(A), (pair(A), pair(B), pair(C)))
    assert [keys.after(pair(each)) for each in (A, B, C)] == [pair(B), pair(C), pair(A)]
    assert keys.after(pair(D)) == keys.after(None) == pair(A)


@dataclass
class Running:
    """An engine whose kubelet refreshes its files so many seconds after each edit."""

    start: int
    delay: int
    keyring: Keyring | None = None

    def at(self, edits: dict[int, ExchangeKey], now: int) -> Keys:
        if self.keyring is None:
            # A new pod has the newest content.
            self.keyring = Keyring(edits[max(at for at in edits if at <= now)], now, overlap=OVERLAP)
        elif self.start <= now - self.delay in edits:
            self.keyring.read(edits[now - self.delay], now)
        return self.keyring.at(now)


def seconds(least: int, most: int) -> st.SearchStrategy[int]:
    """In steps, as the test goes."""
    return st.integers(least // STEP, most // STEP).map(lambda steps: steps * STEP)


@settings(deadline=None)
@given(
    engines=st.lists(st.builds(Running, seconds(0, 1_800), seconds(0, REFRESH)), min_size=2, max_size=5),
    first=seconds(100, 400),
    removed_after=seconds(int(OVERLAP) + REFRESH + STEP, 600),
    pause=seconds(REFRESH + STEP, 400),
)
def test_each_engine_always_knows_the_key_that_each_other_one_listens_with(
    engines: list[Running], first: int, removed_after: int, pause: int
) -> None:
    second = first + removed_after + pause
    edits = {
        0: A,
        first: after(B, A),
        first + removed_after: B,
        second: after(C, B),
        second + removed_after: C,
    }
    for removed in (first + removed_after, second + removed_after):
        # One that listens with a predecessor still, and one that has never heard of it: they compute meanwhile.
        assume(not any(removed - OVERLAP < engine.start < removed for engine in engines))
    for now in range(0, second + removed_after + 600, STEP):
        keys = [engine.at(edits, now) for engine in engines if now >= engine.start]
        listening, known = {each.listening for each in keys}, [set(each.known) for each in keys]
        assert all(listening <= each for each in known)
    assert set(keys) <= {Keys.only(pair(C))}
