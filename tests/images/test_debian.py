# SPDX-License-Identifier: Apache-2.0
"""What becomes of a Debian package on its way into an image."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from e2e.images.debian import unpacked
from e2e.images.tree import File, Folder, Link, Tree

pytestmark = pytest.mark.skipif(not shutil.which("dpkg-deb"), reason="needs Debian's dpkg-deb")

CONTROL = """Package: thing
Version: 1:2.0-1
Architecture: all
Maintainer: Nobody <nobody@example.org>
Description: a thing
"""


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """A package with everything that needs care, unpacked."""
    root = tmp_path / "a package"
    for path, content in {
        "DEBIAN/control": CONTROL,
        "bin/thing": "#!/bin/sh\n",
        "lib/thing/data": "data",
        "usr/share/doc/thing/copyright": "free",
        "usr/share/doc/thing/changelog": "long",
        "usr/share/man/man1/thing.1": "manual",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content)
    (root / "bin" / "thing").chmod(0o755)
    os.link(root / "bin" / "thing", root / "bin" / "thing-again")
    (root / "lib" / "thing" / "link").symlink_to("data")
    (root / "var" / "thing").mkdir(parents=True)
    (root / "var" / "thing").chmod(0o1777)
    package = tmp_path / "thing_1%3a2.0-1_all.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", root, package], check=True, capture_output=True)
    return unpacked([package])


def test_programs_and_libraries_are_below_usr(tree: Tree) -> None:
    assert tree["usr/bin/thing"] == File(b"#!/bin/sh\n", 0o755)
    assert tree["usr/lib/thing/link"] == Link("data")
    assert tree["bin"] == Link("usr/bin")
    assert not [path for path in tree if path.startswith(("bin/", "lib/"))]


def test_a_hard_link_is_a_file_like_the_other(tree: Tree) -> None:
    assert tree["usr/bin/thing-again"] == tree["usr/bin/thing"]


def test_a_folder_that_is_open_to_all_stays_so(tree: Tree) -> None:
    assert tree["var/thing"] == Folder(0o1777)


def test_of_the_documentation_the_licence_is_kept(tree: Tree) -> None:
    assert {path for path in tree if path.startswith("usr/share")} == {"usr/share/doc/thing/copyright"}


def test_scanners_find_which_version_is_in_the_image(tree: Tree) -> None:
    record = tree["var/lib/dpkg/status.d/thing"]

    assert isinstance(record, File)
    assert b"Version: 1:2.0-1\n" in bytes(record.content)
