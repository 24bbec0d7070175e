# SPDX-License-Identifier: Apache-2.0
"""What a process uses, as the kernel counts it."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self

_PROC = Path("/proc")


@dataclass(frozen=True)
class Usage:
    """Of one process, all of its threads."""

    cpu_seconds: float
    """Since it began."""
    resident: int
    """Bytes, now."""
    most_resident: int
    """Bytes, at most since it began."""

    @classmethod
    def of(cls, pid: int) -> Self:
        """As it is now.

        Raises:
            OSError: there is none.
        """
        # The name, in brackets, may hold anything: the numbers are behind the last bracket.
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        status = dict(line.split(":", 1) for line in (_PROC / str(pid) / "status").read_text().splitlines())
        ticks = int(fields[11]) + int(fields[12])
        return cls(ticks / os.sysconf("SC_CLK_TCK"), _bytes(status["VmRSS"]), _bytes(status["VmHWM"]))


def _bytes(field: str) -> int:
    return int(field.split(maxsplit=1)[0]) * 1024
