# SPDX-License-Identifier: Apache-2.0
"""Where the time goes while several processes run tests: a line for each file when its last test has ended.

pytest's own dots stand behind the name of a file, which they can't where tests of several files end in turns.
"""

from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass, field

import pytest

from e2e.testrun.parts import file_of


@dataclass
class _File:
    name: str
    seconds: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        return ", ".join(f"{count} {outcome}" for outcome, count in self.outcomes.items())


class Progress:
    """A plugin of the process that directs the others."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._now: dict[str, _File] = {}
        """What each process is at."""

    @pytest.hookimpl(wrapper=True)
    def pytest_report_teststatus(self) -> Generator[None, tuple[str, str, str], tuple[str, str, str]]:
        """Count each test as pytest does, without a dot for it."""
        category, _, word = yield
        return category, "", word

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a test's setup, call or end to its file; a failure is told of at once."""
        process = str(getattr(report, "worker_id", ""))
        name = file_of(report.nodeid)
        if process in self._now and self._now[process].name != name:
            self._tell(process)
        file = self._now.setdefault(process, _File(name))
        file.seconds += report.duration
        if report.when == "call" or not report.passed:
            file.outcomes[report.outcome] += 1
        if report.failed:
            self._write(f"{'':9} {process}  FAILED {report.nodeid}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Tell of the last ones."""
        for process in list(self._now):
            self._tell(process)

    def _tell(self, process: str) -> None:
        file = self._now.pop(process)
        self._write(f"{file.seconds:7.1f} s {process}  {file.name}: {file}")

    def _write(self, line: str) -> None:
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if terminal is not None:
            terminal.ensure_newline()
            terminal.write_line(line)
