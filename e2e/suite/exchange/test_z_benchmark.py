# SPDX-License-Identifier: Apache-2.0
"""The benchmark of conversations, in its short form: it runs to its end, and its goals on counts are met."""

import pytest

from e2e.bench.kv.__main__ import main

pytestmark = pytest.mark.long

FIGURES = (
    "4_at_once_reverse_forward",
    "4_at_once_reverse_turn_end_to_commit",
    "alone_reverse_wait_after_prefill",
    "bytes_reverse_push",
)


def test_a_short_run_misses_no_goal_and_says_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--quick"]) == 0
    figures = {line.split()[1]: float(line.split()[2]) for line in capsys.readouterr().out.splitlines()}
    assert {name for name in FIGURES if figures.get(name, 0.0) > 0} == set(FIGURES)
