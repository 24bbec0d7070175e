# SPDX-License-Identifier: Apache-2.0
"""`python -m e2e.testrun all|side-by-side|alone [ARGUMENTS OF PYTEST]`: one pytest after the other, whatever the first one finds.

Environment: `TESTS_END_BY`, seconds since 1970 at which all must be over. Without it they take the time that they take.
"""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Final

from e2e.testrun.parts import Part

_ALL: Final = "all"
_MOST: Final = 4
"""Processes at most: each may start a control plane or a browser, and the longest group is one process's work anyway."""
_NO_TESTS: Final = 5
"""pytest's status when none was chosen. https://docs.pytest.org/en/stable/reference/exit-codes.html"""


def main(arguments: Sequence[str]) -> int:
    """Run the parts that the first argument names; the exit status."""
    names = [_ALL, *(part.value for part in Part)]
    if not arguments or arguments[0] not in names:
        print(f"usage: python -m e2e.testrun {'|'.join(names)} [ARGUMENTS OF PYTEST]", file=sys.stderr)
        return 2
    chosen, *more = arguments
    parts = list(Part) if chosen == _ALL else [Part(chosen)]
    statuses = []
    with tempfile.TemporaryDirectory(prefix="tandem-tests-") as folder:
        for part in parts:
            status, was_told_to_end = _run(
                [*command(part, Path(folder) / "failures", os.environ.get("TESTS_END_BY")), *more]
            )
            statuses.append(status)
            if was_told_to_end:
                break
    return status_of(statuses)


def command(part: Part, failures: Path, end_by: str | None) -> list[str]:
    """What runs the tests of a part, to be followed by what the user wants of pytest."""
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "e2e.testrun.plugin",
        f"--part={part.value}",
        f"--failures={failures}",
    ]
    if end_by:
        words.append(f"--end-by={end_by}")
    if part is Part.SIDE_BY_SIDE:
        # Not a number: `--pdb` then works, in one process.
        words += ["-n", "logical", f"--maxprocesses={_MOST}", "--override-ini=console_output_style=classic"]
    return words


def status_of(statuses: Sequence[int]) -> int:
    """The first that tells of something wrong. That one part has no such test is not wrong, only that none has."""
    wrong = [status for status in statuses if status not in {0, _NO_TESTS}]
    if wrong:
        return wrong[0]
    return 0 if 0 in statuses else _NO_TESTS


def _run(words: Sequence[str]) -> tuple[int, bool]:
    """Its status, and whether somebody told all of this to end meanwhile."""
    told: list[int] = []
    process: subprocess.Popen[bytes] | None = None

    def end(number: int, _: FrameType | None) -> None:
        told.append(number)
        # A terminal's interrupt reaches pytest by itself, and a second one would keep it from ending what it has started.
        if process is not None and number == signal.SIGTERM:
            process.terminate()

    before = {each: signal.signal(each, end) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        process = subprocess.Popen(words)
        return process.wait(), bool(told)
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
