# SPDX-License-Identifier: Apache-2.0
"""Which P is asked."""

from hypothesis import assume, given
from hypothesis import strategies as st

from tandem_connector.asking.choose import Candidate, Choice, Chosen, How, LookAround, choose, within_bound
from tandem_connector.exchange.types import BlockHash, EngineId
from tests.asking.builders import SETTINGS, A, B, C

FIRST = BlockHash(b"first-block")
engines = st.integers(0, 9).map(lambda number: EngineId(f"engine-{number}"))
loads = st.integers(0, 100_000)
pools = st.dictionaries(engines, loads, min_size=1, max_size=10).map(
    lambda pool: [Candidate(engine, load) for engine, load in pool.items()]
)
tokens = st.integers(1, 200_000)
answers = st.none() | st.dictionaries(engines, st.integers(0, 1_000))
homes = st.none() | engines


def chosen(
    *candidates: Candidate,
    missing: int = 1_000,
    home: EngineId | None = None,
    haves: dict[EngineId, int] | None = None,
    first: BlockHash = FIRST,
) -> Choice:
    return choose(candidates, missing_tokens=missing, first=first, home=home, haves=haves, settings=SETTINGS)


def test_nobody_is_chosen_of_none() -> None:
    assert chosen() is None


def test_the_p_that_has_the_conversation_is_chosen_though_others_are_idle() -> None:
    assert chosen(Candidate(A, 0), Candidate(B, 2_000), home=B) == Chosen(B, How.CONTINUITY, 2_000)


def test_the_p_that_has_the_conversation_is_not_chosen_when_it_is_overloaded() -> None:
    assert chosen(Candidate(A, 0), Candidate(B, 20_000), home=B) == Chosen(A, How.LEAST_LOADED, 0)


def test_a_long_prompt_that_nobody_is_known_to_have_is_asked_around_for() -> None:
    around = chosen(Candidate(B, 0), Candidate(A, 0), Candidate(C, 90_000), missing=5_000)

    assert around == LookAround((A, B))


def test_one_p_is_not_asked_what_it_holds() -> None:
    assert chosen(Candidate(A, 0), missing=5_000) == Chosen(A, How.LEAST_LOADED, 0)


def test_the_longest_prefix_wins_over_load() -> None:
    choice = chosen(Candidate(A, 0), Candidate(B, 500), missing=5_000, haves={A: 3, B: 4})

    assert choice == Chosen(B, How.LONGEST_PREFIX, 500)


def test_the_longest_prefix_does_not_win_at_an_overloaded_p() -> None:
    choice = chosen(Candidate(A, 0), Candidate(B, 50_000), missing=5_000, haves={A: 3, B: 400})

    assert choice == Chosen(A, How.LONGEST_PREFIX, 0)


def test_without_answers_the_least_loaded_is_chosen() -> None:
    assert chosen(Candidate(A, 7), Candidate(B, 5), missing=5_000, haves={}) == Chosen(B, How.LEAST_LOADED, 5)


def test_prompts_with_one_beginning_meet_and_others_spread() -> None:
    pool = [Candidate(engine, 0) for engine in (A, B, C)]

    picks = {chosen(*pool, first=BlockHash(f"beginning-{number}".encode())) for number in range(50)}

    assert {pick.engine for pick in picks if isinstance(pick, Chosen)} == {A, B, C}
    assert chosen(*pool) == chosen(*reversed(pool))


@given(pool=pools, missing=tokens)
def test_some_p_is_always_within_the_bound(pool: list[Candidate], missing: int) -> None:
    assert within_bound(pool, missing, SETTINGS)


@given(pool=pools, missing=tokens, home=homes, haves=answers)
def test_the_chosen_p_is_never_overloaded(
    pool: list[Candidate], missing: int, home: EngineId | None, haves: dict[EngineId, int] | None
) -> None:
    choice = chosen(*pool, missing=missing, home=home, haves=haves)

    average = (sum(candidate.load for candidate in pool) + missing) / len(pool)
    bound = max(SETTINGS.load_slack_tokens, SETTINGS.load_factor * average)
    by_engine = {candidate.engine: candidate.load for candidate in pool}
    picked = choice.engines if isinstance(choice, LookAround) else (choice.engine,) if choice is not None else ()
    assert picked
    assert all(by_engine[engine] <= bound for engine in picked)
    assert not (isinstance(choice, LookAround) and haves is not None)


@given(pool=pools, missing=tokens, home=homes, haves=answers, order=st.randoms(use_true_random=False))
def test_the_order_of_the_candidates_means_nothing(
    pool: list[Candidate], missing: int, home: EngineId | None, haves: dict[EngineId, int] | None, order: object
) -> None:
    shuffled = sorted(pool, key=lambda _: order.random())  # type: ignore[attr-defined]

    assert chosen(*shuffled, missing=missing, home=home, haves=haves) == chosen(
        *pool, missing=missing, home=home, haves=haves
    )


@given(pool=pools, missing=tokens, haves=answers, pick=st.data())
def test_continuity_wins_unless_overloaded(
    pool: list[Candidate], missing: int, haves: dict[EngineId, int] | None, pick: st.DataObject
) -> None:
    home = pick.draw(st.sampled_from(pool))
    assume(home in within_bound(pool, missing, SETTINGS))

    assert chosen(*pool, missing=missing, home=home.engine, haves=haves) == Chosen(
        home.engine, How.CONTINUITY, home.load
    )
