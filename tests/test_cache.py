# SPDX-License-Identifier: Apache-2.0
"""The cache of expensive results: whole or absent, built once."""

import fcntl
import os
import time
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


def a_result(root: Path, name: str, *, days: float) -> Path:
    """One that was used the last time so many days ago."""
    result = built_once(name, Path.mkdir)
    used = time.time() - days * 86_400
    os.utime(root / f".{name}.lock", (used, used))
    return result


def test_what_was_not_used_for_long_goes_when_another_of_its_kind_is_built(a_cache: Path) -> None:
    recent, unkeyed = a_result(a_cache, f"thing-{2:016x}", days=13), a_result(a_cache, "thing-1.0", days=15)
    old, other_kind = a_result(a_cache, f"thing-{1:016x}", days=15), a_result(a_cache, f"else-{1:016x}", days=15)

    new = built_once(f"thing-{3:016x}", Path.mkdir)

    assert [path.exists() for path in (old, other_kind, recent, unkeyed, new)] == [False, True, True, True, True]
    assert built_once(old.name, Path.mkdir).exists()


def test_to_ask_for_a_result_is_to_use_it(a_cache: Path) -> None:
    old = a_result(a_cache, f"thing-{1:016x}", days=15)
    built_once(old.name, Path.mkdir)

    built_once(f"thing-{2:016x}", Path.mkdir)

    assert old.exists()


def test_a_result_that_somebody_builds_at_the_moment_is_left_alone(a_cache: Path) -> None:
    old = a_result(a_cache, f"thing-{1:016x}", days=15)
    with (a_cache / f".{old.name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        built_once(f"thing-{2:016x}", Path.mkdir)

    assert old.exists()


def test_a_result_that_is_asked_for_while_it_is_removed_stays(a_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = a_result(a_cache, f"thing-{1:016x}", days=15)
    rename = Path.rename

    def renaming(path: Path, target: Path) -> Path:
        if path == old:
            os.utime(a_cache / f".{old.name}.lock")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", renaming)
    built_once(f"thing-{2:016x}", Path.mkdir)

    assert old.exists()
