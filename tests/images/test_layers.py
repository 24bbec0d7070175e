# SPDX-License-Identifier: Apache-2.0
"""Layers: the same tree gives the same bytes, whoever builds it and when."""

import tarfile
from pathlib import Path

from e2e.images.tree import SOURCE_DATE_EPOCH, File, Folder, Link, Tree, folder_tree, read_layer, write_layer

A_TREE: Tree = {
    "usr/bin/program": File(b"#!/bin/sh\n", 0o755),
    "bin": Link("usr/bin"),
    "tmp": Folder(0o1777),
    "etc/passwd": File(b"root:x:0:0::/root:/bin/sh\n"),
}


def layer_of(tree: Tree, path: Path) -> bytes:
    write_layer(tree, path)
    return path.read_bytes()


def test_the_order_in_which_a_tree_was_made_does_not_show(tmp_path: Path) -> None:
    backwards = dict(reversed(A_TREE.items()))

    assert layer_of(A_TREE, tmp_path / "one") == layer_of(backwards, tmp_path / "two")


def test_a_file_on_disk_is_written_as_one_in_memory(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"#!/bin/sh\n")
    on_disk = A_TREE | {"usr/bin/program": File(source, 0o755)}

    assert layer_of(on_disk, tmp_path / "one") == layer_of(A_TREE, tmp_path / "two")


def test_everything_is_owned_by_root_and_of_one_time(tmp_path: Path) -> None:
    write_layer(A_TREE, tmp_path / "layer")

    with tarfile.open(tmp_path / "layer") as archive:
        entries = archive.getmembers()

    assert {(entry.uid, entry.gid, entry.uname, entry.gname, entry.mtime) for entry in entries} == {
        (0, 0, "", "", SOURCE_DATE_EPOCH)
    }


def test_folders_come_before_what_is_in_them(tmp_path: Path) -> None:
    write_layer(A_TREE, tmp_path / "layer")

    with tarfile.open(tmp_path / "layer") as archive:
        names = archive.getnames()

    assert names == ["bin", "etc", "etc/passwd", "tmp", "usr", "usr/bin", "usr/bin/program"]


def test_a_layer_reads_as_it_was_written(tmp_path: Path) -> None:
    write_layer(A_TREE, tmp_path / "layer")

    assert {path: node for path, node in read_layer(tmp_path / "layer").items() if path in A_TREE} == A_TREE


def test_a_folder_is_taken_with_its_links_and_without_what_is_unwanted(tmp_path: Path) -> None:
    (tmp_path / "package" / "__pycache__").mkdir(parents=True)
    (tmp_path / "package" / "__pycache__" / "a.pyc").write_bytes(b"")
    (tmp_path / "package" / "a.py").write_text("")
    (tmp_path / "alias").symlink_to("package")

    tree = folder_tree(tmp_path, "opt/x", without=frozenset({"__pycache__"}))

    assert tree == {"opt/x/package/a.py": File(tmp_path / "package" / "a.py"), "opt/x/alias": Link("package")}
