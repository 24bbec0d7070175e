# SPDX-License-Identifier: Apache-2.0
"""What is shown while something is waited for."""

import io

import pytest

from e2e.cluster.interface import GaveUpError
from e2e.cluster.progress import Progress, wait_until


class Clock:
    """Goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    """Says that it is one."""

    def isatty(self) -> bool:
        return True


def test_without_a_terminal_there_is_a_line_every_ten_seconds_and_one_at_the_end() -> None:
    clock, stream = Clock(), io.StringIO()

    with Progress("building", stream, clock) as progress:
        for second in range(1, 26):
            clock.now = 100.0 + second
            progress.update(f"step {second}")

    assert stream.getvalue().splitlines() == [
        "building (10 s): step 10",
        "building (20 s): step 20",
        "building (25 s): done",
    ]


def test_on_a_terminal_there_is_one_line_that_changes() -> None:
    clock, stream = Clock(), Terminal()

    with Progress("building", stream, clock) as progress:
        for second in (1, 2):
            clock.now = 100.0 + second
            progress.update(f"step {second}")

    assert stream.getvalue().count("\n") == 1
    assert stream.getvalue().split("\r")[1:] == [
        "building (1 s): step 1\x1b[K",
        "building (2 s): step 2\x1b[K",
        "building (2 s): done\x1b[K\n",
    ]


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_nothing_is_shown_of_what_is_done_at_once(stream: io.StringIO) -> None:
    with Progress("building", stream, Clock()) as progress:
        progress.update()

    assert stream.getvalue() == ""


def test_a_failure_is_shown_however_soon_it_comes() -> None:
    stream = io.StringIO()

    with pytest.raises(ValueError, match="broken"), Progress("building", stream, Clock()):
        raise ValueError("broken")

    assert stream.getvalue() == "building (0 s): failed\n"


def test_an_interruption_is_no_failure() -> None:
    stream = io.StringIO()

    with pytest.raises(KeyboardInterrupt), Progress("building", stream, Clock()):
        raise KeyboardInterrupt

    assert stream.getvalue() == "building (0 s): stopped\n"


def test_waiting_returns_the_first_value_that_is_there() -> None:
    answers = iter([None, "", 0, "here", "later"])

    assert wait_until("an answer", lambda: next(answers), timeout=60, every=0, stream=io.StringIO()) == "here"


def test_waiting_ends_with_what_was_waited_for() -> None:
    with pytest.raises(GaveUpError, match="gave up waiting for the moon after 0 s"):
        wait_until("the moon", lambda: None, timeout=0, every=0, stream=io.StringIO())
