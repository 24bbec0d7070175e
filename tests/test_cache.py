# SPDX-License-Identifier: Apache-2.0
"""The cache of expensive results: whole or absent, built once."""

from pathlib import Path

import pytest

from e2e.cache import BuildError, built_once, cache_root, key_of


@pytest.fixture(autouse=True)
def a_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "a cache"
    monkeypatch.setenv("TANDEM_CACHE", str(root))
    return root


def test_a_result_is_built_once() -> None:
    built: list[Path] = []

    def build(target: Path) -> None:
        built.append(target)
        target.write_text("result")

    assert built_once("thing-1", build) == built_once("thing-1", build) == cache_root() / "thing-1"
    assert (cache_root() / "thing-1").read_text() == "result"
    assert len(built) == 1


def test_a_failed_build_leaves_nothing_and_is_tried_again(a_cache: Path) -> None:
    def fail(target: Path) -> None:
        target.mkdir()
        (target / "half").write_text("")
        raise BuildError("the disk is full")

    with pytest.raises(BuildError, match="the disk is full"):
        built_once("thing-1", fail)
    assert [path.name for path in a_cache.iterdir()] == [".thing-1.lock"]

    assert built_once("thing-1", Path.mkdir).is_dir()


def test_what_a_killed_build_left_is_not_built_upon(a_cache: Path) -> None:
    left = a_cache / ".thing-1.unfinished"
    left.mkdir(parents=True)
    (left / "half").write_text("")

    assert list(built_once("thing-1", Path.mkdir).iterdir()) == []


def test_a_key_follows_the_content_and_where_one_input_ends(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    file.write_text("ab")

    assert key_of(file, "c") == key_of("ab", b"c")
    assert key_of("ab", "c") != key_of("a", "bc")


def test_the_cache_is_in_the_users_cache_folder_unless_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TANDEM_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    assert cache_root() == tmp_path / "tandem"
