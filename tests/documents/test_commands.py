# SPDX-License-Identifier: Apache-2.0
"""Every command of the documents is run by a test or by continuous integration, or says what it needs that isn't here."""

import ast
import importlib.util
import re

import pytest

from tandem_operator.kubectl.__main__ import main
from tests.documents.blocks import DOCUMENTS, ROOT, Block, Command, all_commands, commands
from tests.documents.record import Entry, definition_of, entries, made, needed, targets, targets_of_ci
from tests.documents.written import filled

COMMANDS = all_commands()
INLINE = re.compile(r"`([^`\n]+)`")


def whose(command: Command) -> list[Entry]:
    return [entry for entry in entries() if entry.is_for(command.text)]


def is_run_by_ci(command: Command) -> bool:
    named = made(command.text)
    return bool(named) and set(named or []) <= targets_of_ci()


def texts() -> list[tuple[str, str]]:
    """What stands in the documents between backticks, and where; commands of blocks too."""
    inline = [
        (path.relative_to(ROOT).as_posix(), text)
        for path in DOCUMENTS
        if path.name != "CHANGELOG.md"
        for text in INLINE.findall(path.read_text())
    ]
    return [*inline, *((each.page, each.text) for each in COMMANDS)]


def test_every_command_is_run_by_a_test_or_by_ci_or_says_what_it_needs() -> None:
    nobody = [str(each) for each in COMMANDS if not (whose(each) or is_run_by_ci(each) or needed(each))]

    assert not nobody, (
        "name the test that runs it in tests/documents/commands.toml, or write `**Needs EKS, so no test runs this.**` "
        "(a GPU, a release, two idle cores) into the paragraph before it:\n" + "\n".join(nobody)
    )


def test_what_a_test_runs_is_not_said_to_need_what_is_not_here() -> None:
    assert [str(each) for each in COMMANDS if needed(each) and whose(each)] == []


def test_no_command_belongs_to_two_tests_and_no_entry_of_the_record_to_none() -> None:
    owned = [entry for command in COMMANDS if not needed(command) for entry in whose(command)]

    assert [str(each) for each in COMMANDS if len({entry.test for entry in whose(each)}) > 1] == []
    assert [entry for entry in entries() if entry not in owned] == []


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry.pattern)
def test_the_test_of_an_entry_is_there_and_takes_the_command_from_the_page_if_the_record_says_so(entry: Entry) -> None:
    test = definition_of(entry.test)

    assert test, f"there is no {entry.test}"
    takes = any(isinstance(each, ast.Name) and each.id in {"written", "written_for"} for each in ast.walk(test))
    assert entry.written == takes


def test_every_target_of_make_is_there() -> None:
    named = [(page, name) for page, text in texts() for name in made(text) or []]

    assert len(named) > 50
    assert [(page, name) for page, name in named if name not in targets()] == []


def test_every_module_that_python_is_to_run_is_there() -> None:
    named = [(page, name) for page, text in texts() for name in re.findall(r"\bpython3? -m ([\w.]+)", text)]

    assert len(named) > 8
    assert [(page, name) for page, name in named if importlib.util.find_spec(name) is None] == []


def test_every_command_of_the_plugin_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    named = {name for _, text in texts() for name in re.findall(r"\bkubectl tandem ([a-z]+)", text)}

    assert len(named) > 6
    for name in named:
        with pytest.raises(SystemExit, match="0"):
            main([name, "--help"])


@pytest.mark.parametrize(
    ("language", "text", "found"),
    [
        ("console", "make a   # why\n# a remark\n\nmake b", ["make a", "make b"]),
        ("sh", "helm install \\\n  --set a=b \\\n  --wait", ["helm install --set a=b --wait"]),
        ("console", "x=$(a)  # it's b\necho '# no\nremark' | b", ["x=$(a)\necho '# no\nremark' | b"]),
        ("sh", "x=$(a b)  # why\nc $x", ["x=$(a b)\nc $x"]),
        ("sh", "a |   # why\n  b", ["a |\n  b"]),
        ("text", "$ a b\nprinted\n$ c", ["a b", "c"]),
        ("yaml", "a: b", []),
    ],
)
def test_commands_are_told_from_remarks_and_from_what_is_printed(language: str, text: str, found: list[str]) -> None:
    assert [each.text for each in commands(Block("page", 1, language, text, ""))] == found


def test_what_is_printed_is_what_stands_below_a_prompt() -> None:
    first, second = commands(Block("page", 7, "text", "$ a\none\n\ntwo\n$ b\n", ""))

    assert (first.line, first.printed) == (7, "one\n\ntwo")
    assert (second.line, second.printed) == (11, "")


@pytest.mark.parametrize(
    ("before", "what"),
    [
        ("So. **Needs EKS, so no test runs this.** Then", "EKS"),
        ("**Needs a GPU, so no test runs this.**", "a GPU"),
        ("It needs EKS, so no test runs this.", None),
        ("**Needs time, so no test runs this.**", None),
    ],
)
def test_what_a_command_needs_is_said_in_the_same_words_everywhere(before: str, what: str | None) -> None:
    assert needed(Command("page", 1, "a", before)) == what


def test_an_entry_is_for_what_its_pattern_says_and_nothing_longer() -> None:
    assert Entry("test", "get NAME -o jsonpath=…", written=True).is_for("get NAME -o jsonpath='{range [*]}'")
    assert not Entry("test", "make demo", written=True).is_for("make demo-down")
    assert not Entry("test", "a[b]", written=True).is_for("ab")


def test_words_in_capital_letters_are_filled_in_where_they_stand_alone() -> None:
    assert filled("get NAME/NAME-0 NAMES MY-NAME", {"NAME": "qwen"}) == "get qwen/NAME-0 NAMES MY-NAME"


def test_a_target_of_ci_brings_those_that_come_before_it() -> None:
    assert {"check", "prepare", "setup", "test", "unit"} <= targets_of_ci()
    assert "bench-kv" not in targets_of_ci()
