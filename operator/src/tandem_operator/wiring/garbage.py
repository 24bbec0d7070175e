# SPDX-License-Identifier: Apache-2.0
"""Python's collector of reference cycles, told what the operator's memory is like."""

import gc
from typing import Final

_OBJECTS: Final = 50_000
"""New containers after which it looks at them; Python's own number is 700."""


def collect_seldom() -> None:
    """Have the collector run seldom, and leave out all that there is now: modules, most of them models of Kubernetes' API.

    What the operator reads is JSON, in which there are no cycles: it goes when it is no longer used, without a collector. With
    Python's own settings half of the time to parse a list of pods went into looking for cycles in it, and every few lists all
    objects of the process were looked at, for 60 ms, in which no change is told to anybody.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_OBJECTS, 10, 10)
