# SPDX-License-Identifier: Apache-2.0
"""`kubectl tandem`, `kubectl-tandem` or `python -m tandem_operator.kubectl`."""

import asyncio
import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec

from tandem_operator.kubectl.arguments import parser
from tandem_operator.kubectl.exits import Exit, Failed


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status."""
    options = parser().parse_args(arguments)
    if find_spec("rich") is None:
        sys.stderr.write("kubectl-tandem needs more than the operator does: pip install 'tandem-operator[kubectl]'\n")
        return Exit.USAGE
    # Loading a client of Kubernetes takes most of a second, which `--help` needn't wait for.
    from tandem_operator.kubectl.commands import BY_NAME  # noqa: PLC0415

    try:
        ended = asyncio.run(BY_NAME[options.command](options))
        sys.stdout.flush()
    except Failed as problem:
        sys.stderr.write(f"{problem}\n")
        return problem.exit
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # Whoever read the output has seen enough; what is left of it must not be written when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.WELL
    return ended


if __name__ == "__main__":
    sys.exit(main())
