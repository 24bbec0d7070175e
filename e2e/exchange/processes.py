# SPDX-License-Identifier: Apache-2.0
"""What Linux says of an engine's processes."""

from pathlib import Path

from e2e.exchange.engine import Engine


def is_stopped(engine: Engine) -> bool:
    """Whether one of its processes is stopped by a signal."""
    return any(fields and fields[0] == "T" for fields in map(_stat, engine.processes()))


def named(engine: Engine, part: str) -> list[int]:
    """Process ids of those of its processes that have this in their title."""
    return [pid for pid in engine.processes() if part.encode() in _title(pid)]


def resident_bytes(engine: Engine) -> int:
    """Memory that its processes have, all of them together; what they share counts for each."""
    page = 4096
    return sum(int(fields[21]) * page for fields in map(_stat, engine.processes()) if fields)


def _stat(pid: int) -> list[str]:
    """Fields from the third on of `proc_pid_stat(5)`; none of a process that has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _title(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""
