# SPDX-License-Identifier: Apache-2.0
"""Fenced blocks of the documents, and the commands in them."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
DOCUMENTS: Final = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "charts/**/*.md", "manifests/**/*.md", "operator/*.md", "connector/*.md")
    for path in ROOT.glob(pattern)
)
SHELLS: Final = frozenset({"bash", "console", "sh", "shell"})
"""Languages of blocks in which every line is typed. In any other a command follows `$ `, and the rest is what is printed."""
PROMPT: Final = "$ "
_CONTINUATION = re.compile(r" *\\\n *")
_ASSIGNMENT = re.compile(r"\w+=\S+(\([^()]*\))?")
_FENCE = re.compile(r"^( *)(`{3,})(\w*)[^`]*$")


@dataclass(frozen=True)
class Block:
    """What stands between two fences."""

    page: str
    line: int
    """Of its first line, counted from 1."""
    language: str
    text: str
    before: str
    """The paragraph before it."""


@dataclass(frozen=True)
class Command:
    """What a reader is told to type."""

    page: str
    line: int
    text: str
    """As it stands there, without comments and in one piece."""
    before: str
    """The paragraph before its block."""
    printed: str = ""
    """What the page says that it prints."""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.text}"


def all_blocks() -> list[Block]:
    """Of all documents."""
    return [block for path in DOCUMENTS for block in blocks(path.relative_to(ROOT).as_posix(), path.read_text("utf-8"))]


def all_commands() -> list[Command]:
    """Of all documents."""
    return [command for block in all_blocks() for command in commands(block)]


def blocks(page: str, text: str) -> Iterator[Block]:
    """All fenced blocks of a page, in order."""
    lines = text.splitlines()
    number = 0
    while number < len(lines):
        if not (fence := _FENCE.match(lines[number])):
            number += 1
            continue
        indent, marks, language = fence.groups()
        end = next(at for at in range(number + 1, len(lines)) if lines[at].strip() == marks)
        inside = "\n".join(line.removeprefix(indent) for line in lines[number + 1 : end])
        yield Block(page, number + 2, language, inside, _paragraph(lines[:number]))
        number = end + 1


def _paragraph(lines: list[str]) -> str:
    last = "\n".join(lines).rstrip().split("\n\n")[-1]
    return " ".join(last.split())


def commands(block: Block) -> Iterator[Command]:
    """Those of a block, without comments, each in one piece. What is printed is no command."""
    typed = block.language in SHELLS
    lines = block.text.splitlines()
    number = 0
    while number < len(lines):
        first = number
        number += 1
        if not typed and not lines[first].startswith(PROMPT):
            continue
        text = lines[first].removeprefix(PROMPT)
        while not _is_whole(text) and number < len(lines):
            text += "\n" + lines[number]
            number += 1
        text = without_comments(_CONTINUATION.sub(" ", text)).strip()
        if text:
            printed = "" if typed else _printed(lines[number:])
            yield Command(block.page, block.line + first, text, block.before, printed)


def _is_whole(text: str) -> bool:
    bare = without_comments(text).strip()
    # What is assigned is for the next command, and what is piped too.
    if bare.endswith(("\\", "|", "&&")) or _ASSIGNMENT.fullmatch(bare):
        return False
    try:
        shlex.split(text, comments=True)
    except ValueError:  # A quotation that goes on in the next line.
        return False
    return True


def _printed(lines: list[str]) -> str:
    end = next((at for at, line in enumerate(lines) if line.startswith(PROMPT)), len(lines))
    return "\n".join(lines[:end])


def without_comments(text: str) -> str:
    """A shell's text without what it would leave out from `#` to the end of a line."""
    kept: list[str] = []
    quote = ""
    in_comment = False
    for at, character in enumerate(text):
        if in_comment:
            in_comment = character != "\n"
        elif not quote and character == "#" and (at == 0 or text[at - 1].isspace()):
            in_comment = True
        elif character in "'\"" and quote in ("", character):
            quote = "" if quote else character
        if not in_comment:
            kept.append(character)
    return re.sub(r" +$", "", "".join(kept), flags=re.MULTILINE)
