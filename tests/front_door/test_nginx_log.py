# SPDX-License-Identifier: Apache-2.0
"""What nginx, as the sample configures it, says of turns and engines."""

from e2e.front_door.nginx import Turn, known, retries, turns

LOG = [
    "engines: 10.0.0.1",
    '2026-01-01T00:00:00+00:00 session="one" "POST /v1/completions HTTP/1.1" 200 0.5 s engines="10.0.0.1:8000" said="200"',
    "engines: 10.0.0.1 [fd00::2]",
    '2026/01/01 00:00:01 [warn] 7#7: *3 upstream server temporarily disabled, upstream: "http://10.0.0.1:8000/v1"',
    '2026-01-01T00:00:02+00:00 session="two" "POST /v1 HTTP/1.1" 200 0.5 s engines="10.0.0.1:8000, [fd00::2]:8000" said="502, 200"',
]


def test_a_turn_names_the_engines_that_were_asked_the_last_of_which_answered() -> None:
    assert turns(LOG) == [Turn("one", ("10.0.0.1",)), Turn("two", ("10.0.0.1", "[fd00::2]"))]


def test_each_engine_after_the_first_is_a_retry() -> None:
    assert retries(LOG) == 1


def test_the_last_list_of_engines_counts() -> None:
    assert known(LOG) == {"10.0.0.1", "[fd00::2]"}
    assert known([]) == set()
