# SPDX-License-Identifier: Apache-2.0
"""Where expensive results are kept, each named by a hash of what determines it.

A result is built beside its final place and renamed, so a killed build leaves nothing that looks finished. Results are
never changed after that: another input is another key.

Other inputs come with every change, so what nobody asks for any more goes: when a result is built, those of the same kind
that were not used for two weeks are removed. Each is used when `built_once` gives it out, which the time of its lock file
tells. The last of a kind stays, however old it is.
"""

import fcntl
import hashlib
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

UNUSED_FOR: Final = 14 * 86_400.0
"""Seconds after which a result that is not used is removed."""
_KEYED: Final = re.compile(r"(?P<kind>[^.].*)-[0-9a-f]{16}(\.\w+)?")


class BuildError(Exception):
    """A result could not be built. The text says which step failed and what to do; nothing is left half built."""


def cache_root() -> Path:
    """The cache folder: `TANDEM_CACHE`, else `tandem` in the user's cache folder. It may not exist yet."""
    if chosen := os.environ.get("TANDEM_CACHE"):
        return Path(chosen).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser().absolute() / "tandem"


def key_of(*inputs: bytes | str | Path) -> str:
    """A name for the result of `inputs`: text and bytes as they are, files by their content. 16 hexadecimal digits."""
    digest = hashlib.sha256()
    for each in inputs:
        data = each.read_bytes() if isinstance(each, Path) else each.encode() if isinstance(each, str) else each
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.hexdigest()[:16]


def built_once(name: str, build: Callable[[Path], None]) -> Path:
    """The result called `name` in the cache; `build` makes it at the path that it is given when it is not there yet.

    `build` may create a file or a folder at that path, whose parent exists. Two processes that want the same result
    wait for each other, and one of them builds. What an interrupted build left is removed by the next one. Whatever
    `build` raises is passed on, by convention a `BuildError`.
    """
    final = cache_root() / name
    _use(final)
    if final.exists():
        return final
    final.parent.mkdir(parents=True, exist_ok=True)
    with _only_one_of(_lock_of(final)):
        if final.exists():
            return final
        unfinished = final.with_name(f".{final.name}.unfinished")
        _remove(unfinished)
        try:
            build(unfinished)
            unfinished.rename(final)
        finally:
            _remove(unfinished)
    _remove_unused(final)
    return final


def _remove_unused(built: Path) -> None:
    """Remove old results of the same kind as `built`, but those that somebody builds or removes at the moment."""
    kind = _kind_of(built)
    for other in built.parent.iterdir() if kind is not None else ():
        if other != built and _kind_of(other) == kind and _is_unused(other):
            with suppress(BlockingIOError), _only_one_of(_lock_of(other), fcntl.LOCK_NB):
                # Out of the way first: who asks for it from now on builds it, and who did just before is seen here.
                going = other.with_name(f".{other.name}.unfinished")
                other.rename(going)
                if _is_unused(other):
                    _remove(going)
                else:
                    going.rename(other)


def _kind_of(result: Path) -> str | None:
    keyed = _KEYED.fullmatch(result.name)
    return keyed["kind"] if keyed else None


def _is_unused(result: Path) -> bool:
    try:
        used = _lock_of(result).stat().st_mtime
    except FileNotFoundError:
        used = result.stat().st_mtime
    return time.time() - used > UNUSED_FOR


def _use(result: Path) -> None:
    with suppress(OSError):  # a cache that can't be written to, or that isn't there yet
        os.utime(_lock_of(result))


def _lock_of(result: Path) -> Path:
    return result.with_name(f".{result.name}.lock")


@contextmanager
def _only_one_of(lock: Path, how: int = 0) -> Iterator[None]:
    with lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX | how)
        yield


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
