# SPDX-License-Identifier: Apache-2.0
"""The documentation is a site without a link that leads nowhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MKDOCS = (sys.executable, "-m", "mkdocs", "build", "--strict")
"""Not `--quiet`, which takes away the warnings that `--strict` would fail for."""


def test_it_is_built_of_all_pages_and_every_link_and_anchor_is_there(tmp_path: Path) -> None:
    site = tmp_path / "site"
    done = subprocess.run([*MKDOCS, "--site-dir", str(site)], cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    made = {path.relative_to(site) for path in site.rglob("*.html")}
    assert {path.with_name("index.html") if path.stem == "README" else path for path in pages} <= made


@pytest.mark.parametrize(
    ("text", "why"),
    [("[x](nowhere.md)", "nowhere.md"), ("[x](#nothing)", "#nothing"), ("[x](/index.md)", "absolute link")],
)
def test_a_link_that_leads_nowhere_is_noticed(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/index.md").write_text(f"# Title\n\n{text}\n")
    configuration = (ROOT / "mkdocs.yml").read_text()
    # Another theme, which is quicker.
    short = re.sub(r"^theme:\n(?:[ #].*\n|\n)*", "theme: {name: mkdocs}\n", configuration, flags=re.MULTILINE)
    (tmp_path / "mkdocs.yml").write_text(short.partition("\nnav:\n")[0] + "\nnav: [index.md]\n")
    done = subprocess.run(MKDOCS, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode != 0
    assert why in done.stderr
