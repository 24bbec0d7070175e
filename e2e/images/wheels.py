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

# Compiled by the machine that installs, and shebangs with its paths: neither belongs into an image.
_NOT_FOR_IMAGES = frozenset({"__pycache__", "bin"})


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
    # The tree must outlive the temporary folder.
    found = folder_tree(installed, str(folder).lstrip("/"), without=_NOT_FOR_IMAGES)
    return {
        path: File(node.content.read_bytes(), node.mode)
        if isinstance(node, File) and isinstance(node.content, Path)
        else node
        for path, node in found.items()
        if not path.endswith((".lock", "/REQUESTED", "/INSTALLER"))
    }


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
