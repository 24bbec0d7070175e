# SPDX-License-Identifier: Apache-2.0
"""Who runs the commands of the documents: `commands.toml`, continuous integration, or nobody, as the page says."""

import ast
import re
import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from tests.documents.blocks import ROOT, Command

RECORD: Final = Path(__file__).with_name("commands.toml")
NEEDS: Final = re.compile(r"\*\*Needs (EKS|a GPU|a release|two idle cores), so no test runs this\.\*\*")
"""How a page says, in the paragraph before a block, that nothing of it is run here, and why."""
_RUN = re.compile(r"\bmake ((?:[a-z-]+ ?)+)")
_TARGET = re.compile(r"^([a-z][a-z0-9-]*):([a-z -]*)", re.MULTILINE)


@dataclass(frozen=True)
class Entry:
    """A line of the record: these commands are this test's."""

    test: str
    """Its node id."""
    pattern: str
    """A command, in which `…` stands for anything."""
    written: bool
    """Whether the test takes the command from the page."""

    def is_for(self, text: str) -> bool:
        """Whether the command is one of these."""
        return bool(re.fullmatch(".*".join(map(re.escape, self.pattern.split("…"))), text, re.DOTALL))


@cache
def entries() -> tuple[Entry, ...]:
    """The record."""
    parts: Mapping[str, Mapping[str, list[str]]] = tomllib.loads(RECORD.read_text("utf-8"))
    return tuple(
        Entry(test, pattern, written=part == "written")
        for part, tests in parts.items()
        for test, patterns in tests.items()
        for pattern in patterns
    )


def needed(command: Command) -> str | None:
    """What the command needs that isn't here, by the paragraph before it."""
    found = NEEDS.search(command.before)
    return found.group(1) if found else None


@cache
def targets() -> dict[str, list[str]]:
    """All targets of the Makefile, with those that come before each."""
    return {name: before.split() for name, before in _TARGET.findall((ROOT / "Makefile").read_text())}


@cache
def targets_of_ci() -> frozenset[str]:
    """Targets that some workflow runs, those that come before them included."""
    texts = [path.read_text() for path in [*(ROOT / ".github/workflows").glob("*.yaml"), *(ROOT / ".ci").iterdir()]]
    named = [
        name
        for text in texts
        for line in text.splitlines()
        if not line.lstrip().startswith("#")
        for words in _RUN.findall(line)
        for name in words.split()
    ]
    found: set[str] = set()
    while named:
        if (name := named.pop()) not in found:
            found.add(name)
            named += targets().get(name, [])
    return frozenset(found & targets().keys())


def made(text: str) -> list[str] | None:
    """The targets that a command names, which is `make` alone with variables; else None."""
    words = shlex.split(text) if text.startswith("make ") else []
    if not words:
        return None
    return [word for word in words[1:] if "=" not in word and not word.startswith("-")]


def definition_of(node_id: str) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The test's definition, found in its file as a collection would find it; None where there is none."""
    path, _, name = node_id.partition("::")
    file = ROOT / path
    if not file.is_file() or not file.name.startswith("test_") or not name.startswith("test_"):
        return None
    return next((each for each in _functions(file) if each.name == name), None)


@cache
def _functions(file: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [
        each for each in ast.parse(file.read_text()).body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
