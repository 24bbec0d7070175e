# SPDX-License-Identifier: Apache-2.0
"""What the names of blocks are derived from is remembered, within bounds."""

import hypothesis.strategies as st
from hypothesis import given

from tandem_connector.exchange.types import BlockHash, Derivation
from tandem_connector.vllm.lineage import Lineage
from tests.exchange.builders import name, names
from tests.exchange.toy_pool import derived


def test_what_was_learned_is_known_and_nothing_else() -> None:
    lineage = Lineage(10, lambda _: True)
    salted = Derivation(name(0), (7, (1 << 32) - 1), b"salt")
    lineage.learn(name(0), derived(name(0)))
    lineage.learn(name(1), salted)
    assert lineage.of(names(0, 2)) == (derived(name(0)), salted)
    assert lineage.of(names(0, 3)) is None
    assert name(1) in lineage
    assert name(2) not in lineage


def test_what_is_cached_is_never_forgotten_and_the_oldest_of_the_rest_first() -> None:
    lineage = Lineage(4, {name(0), name(3)}.__contains__)
    for each in names(0, 5):
        lineage.learn(each, derived(each))
    assert [each for each in names(0, 5) if each in lineage] == [name(0), name(3), name(4)]


@given(st.lists(st.integers(0, 60), max_size=200), st.sets(st.integers(0, 60), max_size=8))
def test_however_much_is_learned_there_is_a_limit(learned: list[int], cached: set[int]) -> None:
    kept: set[BlockHash] = {name(number) for number in cached}
    lineage = Lineage(16, kept.__contains__)
    for number in learned:
        lineage.learn(name(number), derived(name(number)))
        assert sum(name(each) in lineage for each in range(61)) <= 16
    assert all(name(number) in lineage for number in set(learned) & cached)
