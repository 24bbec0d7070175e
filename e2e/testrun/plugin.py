# SPDX-License-Identifier: Apache-2.0
"""What pytest is told for one part: which tests are its own, who runs them in which order, and when all must be over.

The processes of pytest-xdist load it as well: they choose and order the tests and watch the clock, and the one that
directs them gives out the groups and tells of them.
"""

import time
from pathlib import Path

import pytest
import pytest_timeout
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from e2e.testrun.parts import Part, group_of, part_of, place_of
from e2e.testrun.progress import Progress


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options."""
    group = parser.getgroup("testrun", "parts of all tests")
    group.addoption("--part", choices=[part.value for part in Part], help="run the tests of this part only")
    group.addoption(
        "--end-by",
        type=float,
        metavar="SECONDS",
        help="seconds since 1970 at which the run ends: the test that runs then fails, and none is begun any more",
    )
    group.addoption(
        "--failures",
        type=Path,
        metavar="FILE",
        help="tell of the failures that an earlier part has noted here, and note one's own",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Tell of files instead of tests where the tests of several files run at once, unless asked for each test."""
    if config.getoption("numprocesses", None) and not _is_directed(config) and config.get_verbosity() == 0:
        config.pluginmanager.register(Progress(config))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Don't even read what is another part's, unless somebody named files: then pytest wants to find those."""
    part = _part(config)
    if part is None or config.args != config.getini("testpaths") or collection_path.suffix != ".py":
        return None
    file = collection_path.relative_to(config.rootpath).as_posix()
    return None if part_of(file) is part else True


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests of other parts, and put those first that take longest together."""
    if part := _part(config):
        others = [item for item in items if part_of(item.nodeid) is not part]
        if others:
            config.hook.pytest_deselected(items=others)
        mine = [item for item in items if part_of(item.nodeid) is part]
        items[:] = sorted(mine, key=lambda item: place_of(item.nodeid)) if part is Part.SIDE_BY_SIDE else mine


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling | None:
    """Whole groups, in the order of the tests."""
    return _Groups(config, log) if _part(config) else None


class _Groups(LoadScopeScheduling):  # type: ignore[misc]  # it has no types
    def __init__(self, config: pytest.Config, log: Producer) -> None:
        # Else what has the most tests comes first, which isn't what takes the longest.
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: pytest_timeout.Settings) -> object:
    """No test gets more time than is left of the whole."""
    if left := _left(item.config):
        settings = settings._replace(timeout=min(settings.timeout, max(left, 0.1)))
    return pytest_timeout.pytest_timeout_set_timer(item, settings)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> bool | None:
    """Begin no test when the time for the whole is over."""
    left = _left(item.config)
    if left is None or left > 0:
        return None
    item.session.shouldfail = f"the time for all tests is over: {item.nodeid} and what comes after it did not run"
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say again what failed in the part before, as the end of the output is what one looks at."""
    file: Path | None = config.getoption("failures")
    if file is None or _is_directed(config):
        return
    if earlier := file.read_text() if file.exists() else "":
        terminalreporter.section("failures of the part before, which are told of above", yellow=True)
        terminalreporter.write(earlier)
    mine = [
        f"{category.upper()} {report.nodeid}\n"
        for category in ("failed", "error")
        for report in terminalreporter.getreports(category)
    ]
    with file.open("a") as notes:
        notes.writelines(mine)


def _is_directed(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def _part(config: pytest.Config) -> Part | None:
    chosen = config.getoption("part")
    return Part(chosen) if chosen else None


def _left(config: pytest.Config) -> float | None:
    end: float | None = config.getoption("end_by")
    return None if end is None else end - time.time()
