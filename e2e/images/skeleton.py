# SPDX-License-Identifier: Apache-2.0
"""What the declaration itself puts into an image: users, the virtual environment's frame, files and links."""

from pathlib import PurePosixPath

from e2e.images.declaration import PYTHON, Image, TextFile
from e2e.images.tree import File, Folder, Link, Tree


def skeleton(image: Image) -> Tree:
    """Everything of `image` that comes neither from a package nor from a wheel."""
    others = "" if image.user == 0 else f"{image.name}:x:{image.user}:{image.user}::/:/usr/sbin/nologin\n"
    other_groups = "" if image.user == 0 else f"{image.name}:x:{image.user}:\n"
    tree: Tree = {
        "etc/passwd": File(f"root:x:0:0::/root:/bin/sh\n{others}".encode()),
        "etc/group": File(f"root:x:0:\n{other_groups}".encode()),
        "etc/nsswitch.conf": File(b"passwd: files\ngroup: files\nhosts: files dns\n"),
        "root": Folder(0o700),
    }
    for file in text_files(image):
        tree[str(file.path).lstrip("/")] = File(file.content.encode(), 0o755 if file.executable else 0o644)
    for place, target in links(image).items():
        tree[str(place).lstrip("/")] = Link(target)
    return tree


def text_files(image: Image) -> tuple[TextFile, ...]:
    """The declared files, and what makes a folder a virtual environment of Debian's Python."""
    if not image.venv:
        return image.files
    frame = TextFile(image.venv.root / "pyvenv.cfg", "home = /usr/bin\ninclude-system-site-packages = false\n")
    return (frame, *image.files)


def links(image: Image) -> dict[PurePosixPath, str]:
    """The declared symbolic links, and the virtual environment's interpreter."""
    if not image.venv:
        return dict(image.links)
    return {image.venv.python: f"/usr/bin/{PYTHON}", **image.links}
