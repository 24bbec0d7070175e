# SPDX-License-Identifier: Apache-2.0
"""Debian packages as a file tree: apt chooses, fetches and verifies, nothing is installed, no right is needed."""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

from e2e.cache import BuildError, cache_root
from e2e.images.tree import File, Folder, Link, Node, Tree

_MERGED = ("bin", "sbin", "lib", "lib64")
"""Top folders that are links into /usr since Debian 12."""
_FOR_INSTALLING = frozenset({"dpkg", "libmd0", "tar"})
"""Dependencies of packages' installation scripts, which are not run."""
_FOR_READING = ("usr/share/man/", "usr/share/locale/", "usr/share/info/", "usr/share/lintian/", "usr/share/bug/")
_ARCHITECTURE = "amd64"


@cache
def fetched(names: tuple[str, ...]) -> tuple[Path, ...]:
    """The newest package files of these names and of all that they depend on, verified by apt, in the cache.

    A file is called NAME_VERSION_ARCHITECTURE.deb, so the names say what an image is made of.

    Raises:
        BuildError: apt is not here, knows no packages, not these, or the archive can't be reached.
    """
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise BuildError(
            "images are built from Debian packages, and this machine has no apt-get: "
            "build on Debian 12, or build the Dockerfiles in e2e/images/dockerfiles"
        )
    if not _output(["apt-cache", "pkgnames", "busybox-static"]).strip():
        _update_lists("apt knows no packages")
    try:
        return _fetch(_choose(names))
    except BuildError as error:
        # Lists from before the archive's last update name files that it no longer has.
        _update_lists(str(error))
        return _fetch(_choose(names))


def _choose(names: Sequence[str]) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="tandem-apt-") as nothing_fetched, _apt(Path(nothing_fetched)) as apt:
        printed = _output([*apt, "--print-uris", *names])
    files = [line.split()[1] for line in printed.splitlines() if line.startswith("'")]
    return sorted(file for file in files if package_name(file) not in _FOR_INSTALLING)


def _fetch(files: Sequence[str]) -> tuple[Path, ...]:
    folder = cache_root() / "debian-packages"
    if missing := [file for file in files if not (folder / file).exists()]:
        print(f"fetching {len(missing)} Debian packages", file=sys.stderr, flush=True)
        with _apt(folder) as apt:
            _output([*apt, "--download-only", *(_as_apt_names_it(file) for file in missing)])
    return tuple(folder / file for file in files)


def package_name(file: str) -> str:
    """The package's name in its file's name."""
    return file.split("_", maxsplit=1)[0]


def _as_apt_names_it(file: str) -> str:
    name, version, _ = file.split("_")
    return f"{name}={unquote(version)}"


def _update_lists(why: str) -> None:
    if os.geteuid() != 0:
        raise BuildError(f"{why}; try again after: sudo apt-get update")
    print("updating apt's package lists", file=sys.stderr, flush=True)
    _output(["apt-get", "update", "-qq"])


def unpacked(packages: Sequence[Path]) -> Tree:
    """Everything in these package files but manuals, with a record of each for scanners and the licence texts."""
    tree: Tree = {path: Link(f"usr/{path}") for path in _MERGED}
    tree["tmp"] = Folder(0o1777)
    for package in packages:
        control = _output(["dpkg-deb", "--field", str(package)])
        # Where image scanners look for packages of an image without dpkg's own database.
        tree[f"var/lib/dpkg/status.d/{package_name(package.name)}"] = File(control.encode())
        tree |= _content(package)
    return tree


def _content(package: Path) -> Tree:
    tree: Tree = {}
    with (
        subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(package)], stdout=subprocess.PIPE) as unpacking,
        tarfile.open(fileobj=unpacking.stdout, mode="r|") as archive,
    ):
        for entry in archive:
            path = _in_usr(entry.name)
            if path and not path.startswith(_FOR_READING) and not _is_other_documentation(path):
                node = _node(entry, archive, tree)
                if not (isinstance(node, Folder) and node == Folder()):
                    tree[path] = node
    return tree


def _node(entry: tarfile.TarInfo, archive: tarfile.TarFile, tree: Tree) -> Node:
    if entry.isdir():
        return Folder(entry.mode)
    if entry.issym():
        return Link(entry.linkname)
    if entry.islnk():
        return tree[_in_usr(entry.linkname)]
    data = archive.extractfile(entry)
    if data is None:
        raise BuildError(f"a package has something that is neither file, link nor folder: {entry.name}")
    return File(data.read(), entry.mode)


def _in_usr(name: str) -> str:
    path = str(PurePosixPath(name)).lstrip("/")
    if path == ".":
        return ""
    return f"usr/{path}" if path.split("/")[0] in _MERGED else path


def _is_other_documentation(path: str) -> bool:
    """Whether it is below a package's documentation and not its licence."""
    parts = path.split("/")
    return parts[:3] == ["usr", "share", "doc"] and len(parts) > 4 and parts[4] != "copyright"


@contextmanager
def _apt(archives: Path) -> Iterator[list[str]]:
    """`apt-get install` onto a machine where nothing is installed yet, which writes to the folder `archives` only."""
    (archives / "partial").mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(prefix="tandem-empty-", suffix=".status") as nothing_installed:
        options = {
            "Dir::State::status": nothing_installed.name,
            "Dir::Cache::archives": str(archives),
            "Debug::NoLocking": "1",
            "APT::Architecture": _ARCHITECTURE,
            "APT::Install-Recommends": "0",
            "APT::Sandbox::User": "root",
        }
        settings = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        yield ["apt-get", *settings, "-qq", "--yes", "install"]


def _output(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C.UTF-8"})
    if done.returncode:
        raise BuildError(f"{' '.join(command[:1])} failed: {done.stderr.strip()}")
    return done.stdout
