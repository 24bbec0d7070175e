# SPDX-License-Identifier: Apache-2.0
"""What documents point at is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("charts/**/*.md")], key=lambda path: path.as_posix()
)
FOLDERS = "charts|connector|crds|docs|e2e|manifests|operator|tests"
NAMED = re.compile(rf"`((?:{FOLDERS})/[\w./-]*)(?:::(\w+))?`")
LINKED = re.compile(r"\]\((?!https?:)([^)#]+)")
ANCHORED = re.compile(r"\]\((?!https?:)([^)#]*)#([^)]+)\)")
LINK_TEXT = re.compile(r"\[([^\]]*)\]\([^)]*\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
"""Regular expressions may look like links."""


def anchors(text: str) -> set[str]:
    """Of the headings, as GitHub makes them: letters, digits and `-` for each space."""
    headings = [LINK_TEXT.sub(r"\1", heading) for heading in HEADING.findall(FENCED.sub("", text))]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def label(document: Path) -> str:
    return str(document.relative_to(ROOT))


@pytest.mark.parametrize("document", DOCUMENTS, ids=label)
def test_every_path_test_and_link_of_a_document_exists(document: Path) -> None:
    text = document.read_text()
    named = [(ROOT / path, function) for path, function in NAMED.findall(text)]
    linked = [(document.parent / path, "") for path in LINKED.findall(CODE.sub("", text))]

    assert [str(path) for path, _ in named + linked if not path.exists()] == []
    assert [f for path, f in named if f and f"def {f}(" not in path.read_text()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=label)
def test_every_anchor_that_a_document_links_to_is_a_heading(document: Path) -> None:
    linked = [
        (document.parent / page if page else document, anchor)
        for page, anchor in ANCHORED.findall(CODE.sub("", document.read_text()))
    ]

    assert [f"{page}#{anchor}" for page, anchor in linked if anchor not in anchors(page.read_text())] == []


def test_a_heading_has_the_anchor_that_github_gives_it() -> None:
    text = "# What it *saves*, by `Push`\n```sh\n# no heading\n```\n## See [this](a.md#b) - now"

    assert anchors(text) == {"what-it-saves-by-push", "see-this---now"}


@pytest.mark.parametrize(("document", "heading"), [("failure-modes.md", ""), ("security.md", "## Threats")])
def test_each_row_of_what_may_go_wrong_names_a_test(document: str, heading: str) -> None:
    text = (ROOT / "docs" / document).read_text()
    rows = [line for line in text[text.index(heading) :].splitlines() if line.startswith("| ")][1:]

    assert len(rows) >= 15
    assert [row for row in rows if not any(function for _, function in NAMED.findall(row.rsplit("|", 2)[1]))] == []


def test_the_documents_name_tests_and_link_each_other() -> None:
    texts = [document.read_text() for document in DOCUMENTS]

    assert sum(bool(function) for text in texts for _, function in NAMED.findall(text)) >= 4
    assert sum(len(LINKED.findall(text)) for text in texts) >= 10
