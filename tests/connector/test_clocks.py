# SPDX-License-Identifier: Apache-2.0
"""The connector knows no wall clock: one that is set, or drifts, changes nothing. All times are of the monotonic clock."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "connector" / "src"
ALLOWED = {"monotonic", "sleep", "thread_time"}
"""Of the module `time`. The last is CPU time."""


def wall_clocks(source: str) -> Iterator[str]:
    """Each use of a module that knows the time of day, but for what is allowed."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Attribute(value=ast.Name("time"), attr=name) if name not in ALLOWED:
                yield f"line {node.lineno}: time.{name}"
            case ast.ImportFrom(module="time" | "datetime"):
                yield f"line {node.lineno}: {ast.unparse(node)}"
            case ast.Import(names=names) if any(_is_clock(each) for each in names):
                yield f"line {node.lineno}: {ast.unparse(node)}"


def _is_clock(imported: ast.alias) -> bool:
    return imported.name == "datetime" or (imported.name == "time" and imported.asname is not None)


def test_no_time_of_day_is_asked_for() -> None:
    found = {path.name: list(wall_clocks(path.read_text())) for path in SOURCES.rglob("*.py")}
    assert len(found) > 80
    assert {name: uses for name, uses in found.items() if uses} == {}


@pytest.mark.parametrize(
    "source",
    [
        "import time\nnow = time.time()",
        "import time\nclock = time.time_ns",
        "from time import time",
        "from datetime import datetime",
        "import datetime",
        "import time as clock",
        "import time\ntime.clock_gettime(0)",
    ],
)
def test_the_check_sees_a_wall_clock(source: str) -> None:
    assert len(list(wall_clocks(source))) == 1


def test_the_check_lets_the_monotonic_clock_pass() -> None:
    assert list(wall_clocks("import time\nnow = time.monotonic()")) == []
