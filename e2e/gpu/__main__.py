# SPDX-License-Identifier: Apache-2.0
"""Holds a conversation over a prefill and a decode engine that share one GPU, and checks what they computed and moved.

Prints `ok`, `FAILED` and `figure` lines; the exit status is 0 when everything held. With `--device cpu` all but the device
is the same, with 32-bit numbers.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Final

from e2e.cache import BuildError
from e2e.cluster.interface import GaveUpError
from e2e.engine.model import cached_model
from e2e.gpu.conversation import figure, prove
from e2e.gpu.devices import KINDS, environment_for

LOGS: Final = Path(".state/gpu")


def main() -> int:
    """Prove it; 0 when everything held."""
    parser = argparse.ArgumentParser(prog="python -m e2e.gpu", description=__doc__)
    parser.add_argument("--device", choices=tuple(KINDS), default="cuda")
    parser.add_argument(
        "--python",
        type=Path,
        metavar="PATH",
        help="an interpreter that has vLLM 0.32 for the device and nixl 1.5 (default: install them)",
    )
    options = parser.parse_args()
    kind = KINDS[options.device]
    began = time.monotonic()
    found = []
    try:
        environment = environment_for(options.device, options.python)
        figure("install", time.monotonic() - began, "s")
        for finding in prove(kind, environment, cached_model(), LOGS):
            print(finding, flush=True)
            found.append(finding)
    except (AssertionError, BuildError, GaveUpError, OSError) as error:
        print(f"FAILED: {error}; the engines' logs are in {LOGS}", file=sys.stderr)
        return 1
    figure("everything", time.monotonic() - began, "s")
    failed = sum(not finding.holds for finding in found)
    print(f"{len(found) - failed} hold, {failed} do not; the engines' logs are in {LOGS}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
