# SPDX-License-Identifier: Apache-2.0
"""The built programs: what is in the cache is used, and every input of the build has a part in its name."""

import shutil
from pathlib import Path

import pytest

from e2e.cache import BuildError
from e2e.cluster import binary

SOURCES = Path(binary.__file__).parent / "kubernetes"


def a_module(folder: Path, **changes: str) -> binary._Module:
    """A copy of a module's sources, with `changes` appended to the files of these names (dots as underscores)."""
    shutil.copytree(SOURCES, folder / "kubernetes")
    for name, text in changes.items():
        with (folder / "kubernetes" / name.replace("_", ".")).open("a") as file:
            file.write(text)
    return binary._Module("kubernetes", ".")


@pytest.mark.parametrize("changed", ["go_mod", "go_sum", "main_go", "coredns_go"])
def test_another_input_is_another_result(changed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cached_as(folder: Path, **changes: str) -> str:
        folder.mkdir()
        monkeypatch.setattr(binary, "__file__", str(folder / "binary.py"))
        return a_module(folder, **changes).cached_as

    assert cached_as(tmp_path / "one") == cached_as(tmp_path / "same")
    assert cached_as(tmp_path / "other", **{changed: "// changed\n"}) != cached_as(tmp_path / "again")


def test_other_flags_are_another_result() -> None:
    assert binary._Module("kwok", ".", ("-X a=1",)).cached_as != binary._Module("kwok", ".", ("-X a=2",)).cached_as


def test_a_missing_go_is_named_before_anything_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TANDEM_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(BuildError, match="install Go"):
        binary.build_kubernetes()
    assert list(tmp_path.iterdir()) == []


def test_what_is_in_the_cache_needs_no_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TANDEM_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    cached = tmp_path / binary._Module("kwok", "sigs.k8s.io/kwok/cmd/kwok").cached_as
    cached.parent.mkdir()
    cached.touch()

    assert binary.build_kwok() == cached
