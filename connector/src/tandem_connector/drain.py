# SPDX-License-Identifier: Apache-2.0
"""Tells an engine that it is to end, and waits until it has nothing left to do.

The exit status is 0 when it has, 1 and a line on stderr when the time is over. Run inside the engine's container, as
`python3 -I -S .../drain.py --within SECONDS`, by what ends it (a preStop hook). It imports the standard library only, like `probe.py`.
The engine is told by a file beside its status file, and not by its peer table: a kubelet shows a pod that is being deleted no newer
one. An engine that doesn't drain all the same, since it doesn't run yet or hangs, is waited for only as long as `--told-within` says.
Of a server with data-parallel ranks each is told, and all are waited for.
"""

import argparse
import json
import os
import sys
import time

_EVERY_SECONDS = 0.1
_STAGES = ("serving", "draining", "drained")
"""Of an engine's end, the first one first."""


def stage(path: str) -> str:
    """What the status file says of the engine's end; empty when there is no such file, or it says nothing."""
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 - importing pathlib takes longer than all the rest
            status = json.load(file)
    except (OSError, ValueError):
        return ""
    return str(status.get("drain", "")) if isinstance(status, dict) else ""


def least(paths: list[str]) -> str:
    """Of the engines with these status files, the stage of the one that is furthest from its end."""
    return min((stage(path) for path in paths), key=lambda found: _STAGES.index(found) if found in _STAGES else -1)


def tell(path: str) -> None:
    """Leave the mark beside the status file; an engine that has no such file hears of its end by its peer table only."""
    if path:
        try:
            with open(f"{path}.drain", "w", encoding="utf-8"):  # noqa: PTH123
                pass
        except OSError as error:
            print(f"the engine can't be told that it is to end: {error}", file=sys.stderr)


def main() -> int:
    """Wait for the engine whose environment this process shares."""
    parser = argparse.ArgumentParser(description="Wait until this engine has nothing left to do.")
    parser.add_argument("--within", type=float, required=True, metavar="SECONDS", help="wait no longer than this")
    parser.add_argument("--at-least", type=float, default=0.0, metavar="SECONDS", help="wait no less than this")
    parser.add_argument(
        "--told-within", type=float, metavar="SECONDS", help="wait no longer than this for an engine that doesn't drain"
    )
    given = parser.parse_args()
    told_within = given.within if given.told_within is None else min(given.told_within, given.within)
    path, ranks = os.environ.get("TANDEM_STATUS_FILE", ""), int(os.environ.get("TANDEM_DATA_PARALLEL", "1"))
    paths = [f"{path}.dp{rank}" if path and rank else path for rank in range(ranks)]
    began = time.monotonic()
    for each in paths:
        tell(each)
    while (found := least(paths)) != "drained":
        limit = given.within if found == "draining" else told_within
        left = began + limit - time.monotonic()
        if left <= 0:
            print(f"after {limit:g} s the engine is {found or 'silent'}, not drained", file=sys.stderr)
            break
        time.sleep(min(_EVERY_SECONDS, left))
    time.sleep(max(0.0, began + given.at_least - time.monotonic()))
    return 0 if found == "drained" else 1


if __name__ == "__main__":
    sys.exit(main())
