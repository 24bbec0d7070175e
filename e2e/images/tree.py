# SPDX-License-Identifier: Apache-2.0
"""A file system tree in memory, and its one way of becoming a layer: sorted, owned by root, all of one time."""

import hashlib
import io
import os
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeAlias

SOURCE_DATE_EPOCH = 1767225600
"""Time of every file and image, 2026-01-01: nothing that is built twice may differ by when."""


@dataclass(frozen=True)
class File:
    """A regular file; large ones stay on disk until they are written."""

    content: bytes | Path
    mode: int = 0o644


@dataclass(frozen=True)
class Link:
    """A symbolic link."""

    target: str


@dataclass(frozen=True)
class Folder:
    """A folder that needs more than existing: its mode counts."""

    mode: int = 0o755


Node: TypeAlias = File | Link | Folder
Tree: TypeAlias = dict[str, Node]
"""Nodes by path, without a leading slash. Folders above a node need not be there."""


def folder_tree(root: Path, below: str, *, without: frozenset[str] = frozenset()) -> Tree:
    """What is in the folder `root`, as it shall be at the path `below` of a tree.

    Folders whose name is in `without` are left out. A file is executable for all or for none.
    """
    tree: Tree = {}
    for place, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in without]
        for name in (*files, *(name for name in folders if (Path(place) / name).is_symlink())):
            source = Path(place) / name
            path = f"{below}/{source.relative_to(root).as_posix()}"
            if source.is_symlink():
                tree[path] = Link(str(source.readlink()))
            else:
                tree[path] = File(source, 0o755 if source.stat().st_mode & 0o100 else 0o644)
    return tree


def write_folder(tree: Tree, root: Path) -> None:
    """Put files and links of `tree` below the folder `root`, for a program that has to see them."""
    for path, node in tree.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        match node:
            case Folder():
                place.mkdir(exist_ok=True)
            case Link(target):
                place.symlink_to(target)
            case File(content, mode):
                place.write_bytes(_bytes(content))
                place.chmod(mode)


def write_layer(tree: Tree, target: Path) -> None:
    """Write `tree` as an uncompressed tar file. The same tree gives the same bytes, wherever and whenever.

    Uncompressed, because what a compressor makes of the same input differs between its releases.
    """
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as archive:
        for path, node in _with_parents(tree):
            entry = tarfile.TarInfo(path)
            entry.mtime = SOURCE_DATE_EPOCH
            match node:
                case Folder(mode):
                    entry.type, entry.mode = tarfile.DIRTYPE, mode
                    archive.addfile(entry)
                case Link(link):
                    entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, link, 0o777
                    archive.addfile(entry)
                case File(content, mode):
                    entry.mode = mode
                    with _opened(content) as data:
                        entry.size = data.seek(0, os.SEEK_END)
                        data.seek(0)
                        archive.addfile(entry, data)


def tree_key(tree: Tree) -> str:
    """A hash of a small tree whose files are in memory: for naming what is made of it."""
    return hashlib.sha256(repr(sorted(tree.items())).encode()).hexdigest()


def read_layer(layer: Path) -> Tree:
    """The tree that `write_layer` wrote."""
    tree: Tree = {}
    with tarfile.open(layer) as archive:
        for entry in archive:
            if entry.isdir():
                tree[entry.name] = Folder(entry.mode)
            elif entry.issym():
                tree[entry.name] = Link(entry.linkname)
            elif data := archive.extractfile(entry):
                tree[entry.name] = File(data.read(), entry.mode)
    return tree


def _with_parents(tree: Tree) -> Iterator[tuple[str, Node]]:
    whole: Tree = {}
    for path in tree:
        parts = path.split("/")[:-1]
        for depth in range(1, len(parts) + 1):
            whole.setdefault("/".join(parts[:depth]), Folder())
    whole |= tree
    # By parts, so that a folder's content follows it before a sibling whose name begins alike.
    return iter(sorted(whole.items(), key=lambda item: item[0].split("/")))


def _opened(content: bytes | Path) -> IO[bytes]:
    return io.BytesIO(content) if isinstance(content, bytes) else content.open("rb")


def _bytes(content: bytes | Path) -> bytes:
    return content if isinstance(content, bytes) else content.read_bytes()
