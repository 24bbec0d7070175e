# SPDX-License-Identifier: Apache-2.0
"""`tandem-operator run`: the operator's process."""

import asyncio
import sys
from collections.abc import Sequence

import structlog
from pydantic import ValidationError
from pydantic_settings import CliApp

from tandem_operator import logs
from tandem_operator.kube.access import NoAccess
from tandem_operator.settings import Settings
from tandem_operator.wiring.garbage import collect_seldom
from tandem_operator.wiring.process import run

_USAGE = """usage: tandem-operator run [options]

Runs the operator of DisaggregatedInference resources. `tandem-operator run --help` lists the options.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status."""
    command, *options = (sys.argv[1:] if arguments is None else arguments) or ["--help"]
    if command in ("-h", "--help"):
        sys.stdout.write(_USAGE)
        return 0
    if command != "run":
        sys.stderr.write(_USAGE)
        return 2
    try:
        settings = CliApp.run(Settings, cli_args=options)
    except ValidationError as error:
        sys.stderr.write(f"wrong settings: {error}\n")
        return 2
    logs.configure(settings.log_format, settings.log_level)
    log = structlog.get_logger()
    collect_seldom()
    try:
        asyncio.run(run(settings))
    except NoAccess as error:
        log.error("no access", error=str(error))
        return 1
    except Exception:
        # The pod is restarted, which is the remedy for whatever part could not go on.
        log.exception("operator failed")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
