# SPDX-License-Identifier: Apache-2.0
"""Command line: build the engine environment, say where it is, make the model, start a plain engine."""

import argparse
import os
import sys
import time
from pathlib import Path

from e2e.cache import BuildError
from e2e.engine.environment import build_environment, engine_environment
from e2e.engine.model import cached_model, make_model
from e2e.engine.serve import plain_engine


def main() -> None:
    """Run the sub-command that the arguments name."""
    parser = argparse.ArgumentParser(prog="python -m e2e.engine", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build", help="install the environment into the cache; nothing when it is there")
    commands.add_parser("path", help="print the folder that pods mount as site-packages")
    model = commands.add_parser("model", help="make the small random model")
    model.add_argument("folder", type=Path, nargs="?", help="where to (default: the cache)")
    model.add_argument("--seed", type=int, default=0)
    serve = commands.add_parser("serve", help="become a plain engine on 127.0.0.1; unknown options go to vLLM")
    serve.add_argument("--port", type=int, default=8000)
    serve.add_argument("--cores", default="0", help="cores for its computation, such as 0 or 0-3 (default: 0)")
    serve.add_argument("--model", type=Path, help="a model folder (default: the small random model)")
    options, others = parser.parse_known_args()
    if others and options.command != "serve":
        parser.error(f"unknown arguments: {' '.join(others)}")

    match options.command:
        case "build":
            started = time.monotonic()
            environment = build_environment()
            print(f"{environment.root} ({time.monotonic() - started:.0f} s)")
        case "path":
            environment = engine_environment()
            print(environment.site_packages)
            if not environment.complete:
                sys.exit("it is not built yet: python -m e2e.engine build")
        case "model":
            if options.folder:
                make_model(options.folder, options.seed)
            print(options.folder or cached_model(options.seed))
        case "serve":
            environment = build_environment()
            command = plain_engine(
                environment,
                (options.model or cached_model()).absolute(),
                port=options.port,
                cores=options.cores,
                more_arguments=others,
            )
            os.execve(command.arguments[0], command.arguments, {**os.environ, **command.environment})


if __name__ == "__main__":
    try:
        main()
    except BuildError as error:
        sys.exit(str(error))
