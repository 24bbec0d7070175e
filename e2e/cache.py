# SPDX-License-Identifier: Apache-2.0
"""Where expensive results are kept, each named by a hash of what determines it.

A result is built beside its final place and renamed, so a killed build leaves nothing that looks finished. Results are
never changed after that: another input is another key.
"""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


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
    if final.exists():
        return final
    final.parent.mkdir(parents=True, exist_ok=True)
    with _only_one_of(final.with_name(f".{final.name}.lock")):
        if final.exists():
            return final
        unfinished = final.with_name(f".{final.name}.unfinished")
        _remove(unfinished)
        try:
            build(unfinished)
            unfinished.rename(final)
        finally:
            _remove(unfinished)
    return final


@contextmanager
def _only_one_of(lock: Path) -> Iterator[None]:
    with lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
