# SPDX-License-Identifier: Apache-2.0
"""Which tests can share a machine, which of those share a process, and which of them come first."""

from enum import Enum
from pathlib import PurePosixPath
from typing import Final

_SUITE: Final = PurePosixPath("e2e/suite")
BY_THEMSELVES: Final = frozenset(
    {
        "test_argocd_code.py",
        "test_chaos_on_apiserver.py",
        "test_chart_on_apiserver.py",
        "test_installing_on_apiserver.py",
        "test_ui_page.py",
    }
)
"""Files of the suite whose tests don't ask for the session's control plane: they bring their own, or need none."""
_SHARED: Final = "those of the session's control plane"


class Part(Enum):
    """A part of all tests, which has a pytest of its own."""

    SIDE_BY_SIDE = "side-by-side"
    """They need no real node and no real engine; several processes run them at one time."""
    ALONE = "alone"
    """A machine has room for one node, and a pair of engines takes two cores: these run one after the other."""


def part_of(node_id: str) -> Part:
    """The part that a test or a file of tests belongs to."""
    folder = PurePosixPath(file_of(node_id)).parent
    return Part.ALONE if folder != _SUITE and folder.is_relative_to(_SUITE) else Part.SIDE_BY_SIDE


def group_of(node_id: str) -> str:
    """Tests of one group run in one process: those of a file, and all that share the session's control plane.

    A session is a process: a second one would start a second control plane.
    """
    file = PurePosixPath(file_of(node_id))
    return _SHARED if file.parent == _SUITE and file.name not in BY_THEMSELVES else str(file)


def place_of(node_id: str) -> int:
    """What comes first, lowest first: the longest group, then the suite's other files, then the fast tests, which fill the rest."""
    if group_of(node_id) == _SHARED:
        return 0
    return 1 if PurePosixPath(file_of(node_id)).parent == _SUITE else 2


def file_of(node_id: str) -> str:
    """The path of a test's file from the repository's root; parameters may have slashes, too."""
    return node_id.partition("::")[0]
