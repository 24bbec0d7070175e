# SPDX-License-Identifier: Apache-2.0
"""The earlier state that upgrades are tried from."""

import subprocess
from pathlib import Path

import pytest

from e2e.suite import earlier


def test_a_checkout_without_the_history_says_why_upgrades_are_not_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    monkeypatch.setattr(earlier, "_ROOT", tmp_path)

    with pytest.raises(pytest.skip.Exception, match="not in this checkout's history: it is a shallow clone"):
        earlier.earlier_sources(tmp_path / "earlier")


def test_what_is_no_checkout_says_so_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(earlier, "_ROOT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))

    with pytest.raises(pytest.skip.Exception, match=r"or no clone at all\. git says: fatal: not a git repository"):
        earlier.earlier_sources(tmp_path / "earlier")
