# SPDX-License-Identifier: Apache-2.0
"""`python -m e2e.bench.transfer`: runs the benchmark in the engine environment, where NIXL is. Takes some minutes."""

import os
import subprocess
import sys
from pathlib import Path

from e2e.engine.environment import engine_environment

_ROOT = Path(__file__).parents[3]


def main() -> int:
    """Run it, with UCX over TCP as between pods, or as `UCX_TLS` says; returns the exit status."""
    environment = engine_environment()
    if not environment.complete:
        print("the engine environment isn't built: python -m e2e.engine build", file=sys.stderr)
        return 1
    return subprocess.run(
        [environment.python, "-m", "e2e.bench.transfer.measure"],
        cwd=_ROOT,
        env={"UCX_TLS": "tcp,self", "NIXL_LOG_LEVEL": "FATAL"}
        | os.environ
        | {"PYTHONPATH": f"{_ROOT}:{_ROOT / 'connector' / 'src'}"},
        check=False,
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
