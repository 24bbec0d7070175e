# SPDX-License-Identifier: Apache-2.0
"""Byte code for the Python files of an image, made by the image's own Python."""

import os
import subprocess
import tempfile
from pathlib import Path

from e2e.cache import BuildError
from e2e.images.declaration import PYTHON
from e2e.images.tree import File, Tree, write_folder

_LIBRARIES = "usr/lib/x86_64-linux-gnu"


def compiled(tree: Tree, system: Tree) -> Tree:
    """The byte code files of all Python files in `tree`; `system` has Debian's Python.

    They are never checked against their sources, as in an image neither changes, so file times don't matter.

    Raises:
        BuildError: The image's Python does not run on this machine, or a file is not in its language.
    """
    sources = {path: node for path, node in tree.items() if path.endswith(".py") and isinstance(node, File)}
    with tempfile.TemporaryDirectory(prefix="tandem-bytecode-") as folder:
        python, target = Path(folder) / "system", Path(folder) / "tree"
        write_folder(system, python)
        write_folder(dict(sources), target)
        _compile(python, target)
        return {
            file.relative_to(target).as_posix(): File(file.read_bytes()) for file in target.rglob("__pycache__/*.pyc")
        }


def _compile(system: Path, target: Path) -> None:
    done = subprocess.run(
        [
            # Through its own loader and libraries, so that this machine needs neither a chroot nor a Python like it.
            *(system / _LIBRARIES / "ld-linux-x86-64.so.2", "--library-path", system / _LIBRARIES),
            *(system / "usr" / "bin" / PYTHON, "-B", "-S", "-m", "compileall", "-q"),
            *("--invalidation-mode", "unchecked-hash", "-s", target, "-p", "/", target),
        ],
        # Sets in constants are ordered by their hashes.
        env={"PYTHONHOME": str(system / "usr"), "PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8", "PATH": os.defpath},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BuildError(f"the image's Python could not compile: {done.stderr.strip() or done.stdout.strip()}")
