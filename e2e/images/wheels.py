# SPDX-License-Identifier: Apache-2.0
"""Python packages for an image: what a lock file names, and our own, as file trees."""

import os
import subprocess
import tempfile
from pathlib import Path, PurePosixPath

from e2e.cache import BuildError
from e2e.images.declaration import PYTHON, REPOSITORY, Wheels
from e2e.images.tree import SOURCE_DATE_EPOCH, File, Tree, folder_tree
from e2e.uv import uv_program

_FOLDERS_NOT_FOR_IMAGES = frozenset({"__pycache__", "bin"})
"""Byte code of this machine's Python, and programs that name its path."""
_FILES_NOT_FOR_IMAGES = frozenset({"uv_cache.json", ".lock"})
"""What uv notes for itself, with the time of the build."""


def locked_requirements(wheels: Wheels) -> str:
    """The dependencies in pip's format, with hashes, as the lock file has them."""
    return _uv(*export_words(wheels), "--no-annotate", "--project", str(REPOSITORY / wheels.project))


def export_words(wheels: Wheels) -> list[str]:
    """The words after `uv` that print the dependencies of `wheels`, to be run in their project."""
    which = ["--package", wheels.member, "--no-emit-workspace"] if wheels.member else ["--no-emit-project"]
    return ["export", "--quiet", "--frozen", "--no-header", "--no-default-groups", *which]


def installed_requirements(requirements: str, folder: PurePosixPath) -> Tree:
    """The wheels of `requirements`, verified by their hashes, unpacked into `folder` of an image.

    Raises:
        BuildError: A wheel is missing for the image's Python, or a hash is another.
    """
    with tempfile.TemporaryDirectory(prefix="tandem-wheels-") as place:
        listed = Path(place) / "requirements.txt"
        listed.write_text(requirements)
        target = Path(place) / "packages"
        _install(target, "--require-hashes", "--requirement", str(listed))
        return _packages(target, folder)


def installed_members(wheels: Wheels) -> Tree:
    """Our own distributions, built from this checkout, unpacked into their folder of an image."""
    with tempfile.TemporaryDirectory(prefix="tandem-wheels-") as place:
        built = Path(place) / "built"
        for member in wheels.own:
            _uv("build", "--quiet", "--wheel", "--package", member, "--out-dir", str(built), str(REPOSITORY))
        target = Path(place) / "packages"
        # By name from a folder, so that no record of this machine's paths is left in them.
        _install(target, "--no-index", "--find-links", str(built), *wheels.own)
        return _packages(target, wheels.folder)


def _packages(installed: Path, folder: PurePosixPath) -> Tree:
    below = str(folder).lstrip("/")
    found = folder_tree(installed, below, without=_FOLDERS_NOT_FOR_IMAGES)
    packages: Tree = {}
    for path, node in found.items():
        if isinstance(node, File) and isinstance(node.content, Path) and Path(path).name not in _FILES_NOT_FOR_IMAGES:
            content = node.content.read_bytes()
            if path.endswith(".dist-info/RECORD"):
                content = _without_absent(content, found, below)
            # In memory, because the folder is removed.
            packages[path] = File(content, node.mode)
    return packages


def _without_absent(record: bytes, found: Tree, below: str) -> bytes:
    """A wheel's list of files, without those that the image does not have."""
    lines = record.decode().splitlines(keepends=True)
    names = [(line, line.rsplit(",", 2)[0].strip('"')) for line in lines]
    return "".join(
        line for line, name in names if f"{below}/{name}" in found and Path(name).name not in _FILES_NOT_FOR_IMAGES
    ).encode()


def _install(target: Path, *what: str) -> None:
    platform = ("--python-version", PYTHON.removeprefix("python"), "--python-platform", "x86_64-manylinux_2_36")
    options = ("--quiet", "--no-deps", "--only-binary", ":all:", "--target", str(target))
    _uv("pip", "install", *options, *platform, *what)


def _uv(*arguments: str) -> str:
    inherited = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    done = subprocess.run(
        [uv_program(), *arguments],
        env=inherited | {"SOURCE_DATE_EPOCH": str(SOURCE_DATE_EPOCH)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BuildError(f"uv {' '.join(arguments[:2])} failed: {done.stderr.strip()}")
    return done.stdout
