# SPDX-License-Identifier: Apache-2.0
"""Tandem as it was, from Git's history."""

import io
import subprocess
import tarfile
from pathlib import Path

import pytest

EARLIER = "3e4adfba1434d24390f4f052933c7a4772e6b17f"
"""The state that upgrades start from: before scalers, verification, NetworkPolicies and paired roll-outs. docs/releases.md says when
another one takes its place."""

_ROOT = Path(__file__).parents[2]


def earlier_sources(folder: Path) -> Path:
    """The chart and the programs of that state, in the folder. Skips the test where the history doesn't reach that far."""
    command = ["git", "-C", str(_ROOT), "archive", EARLIER, "charts", "operator", "connector"]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        pytest.skip(
            f"upgrades start from commit {EARLIER}, which is not in this checkout's history: it is a shallow clone "
            f"(`git fetch --unshallow` mends that) or no clone at all. git says: {done.stderr.decode().strip()}"
        )
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder
