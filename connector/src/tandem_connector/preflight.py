# SPDX-License-Identifier: Apache-2.0
"""Whether the image can run an engine at all: exit status 0 when it can, 1 and the reason where Kubernetes finds it when it can't.

Run by the launch script as `python3 -m tandem_connector.preflight`, before vLLM, which would end with a long traceback of which
the pod's status has nothing. It only looks whether packages are there; to import them takes seconds.
"""

import contextlib
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from tandem_connector.contract.environment import NO_NIXL

_TERMINATION_LOG: Final = Path("/dev/termination-log")
"""Its content becomes the message of the container's state. It is there in containers only."""


def main() -> int:
    """Look, and say what is missing; the exit status."""
    if find_spec("nixl") is not None:
        return 0
    print(NO_NIXL, file=sys.stderr)
    with contextlib.suppress(OSError), _TERMINATION_LOG.open("r+") as log:
        log.write(NO_NIXL)
    return 1


if __name__ == "__main__":
    sys.exit(main())
