# SPDX-License-Identifier: Apache-2.0
"""Command line: build image archives, write or check the Dockerfiles."""

import argparse
import sys
import time
from pathlib import Path

from e2e.cache import BuildError
from e2e.engine.environment import build_environment
from e2e.images.build import build_image
from e2e.images.catalogue import ENGINE_CPU, IMAGES, WITH_DOCKERFILE
from e2e.images.dockerfile import drifted, write_dockerfiles


def main() -> None:
    """Run the sub-command that the arguments name."""
    parser = argparse.ArgumentParser(prog="python -m e2e.images", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build", help="build OCI archives, for containerd, kind, skopeo and docker load")
    build.add_argument("names", nargs="*", metavar="NAME", help=f"which (default: all): {', '.join(IMAGES)}")
    build.add_argument("--output", type=Path, help="folder for NAME.tar (default: the cache)")
    build.add_argument(
        "--with-environment",
        action="store_true",
        help=f"put the engine environment into {ENGINE_CPU.name}, 6 GB, for clusters that can't mount it",
    )
    files = commands.add_parser("dockerfiles", help="write the Dockerfiles in e2e/images/dockerfiles")
    files.add_argument("--check", action="store_true", help="only say whether they are as the declarations make them")
    options = parser.parse_args()

    match options.command:
        case "build":
            _build(parser, options.names or list(IMAGES), options.output, options.with_environment)
        case "dockerfiles" if options.check:
            if names := drifted(WITH_DOCKERFILE):
                sys.exit(f"not as declared: {', '.join(names)}; run: python -m e2e.images dockerfiles")
        case "dockerfiles":
            for path in write_dockerfiles(WITH_DOCKERFILE):
                print(f"wrote {path.name}")


def _build(parser: argparse.ArgumentParser, names: list[str], output: Path | None, with_environment: bool) -> None:
    if unknown := [name for name in names if name not in IMAGES]:
        parser.error(f"no such image: {', '.join(unknown)}; there are {', '.join(IMAGES)}")
    for name in names:
        started = time.monotonic()
        mounted = build_environment().site_packages if with_environment and name == ENGINE_CPU.name else None
        built = build_image(IMAGES[name], output, engine_environment=mounted)
        megabytes = built.size / 1e6
        seconds = time.monotonic() - started
        print(
            f"{built.image.reference}  {built.digest}  {megabytes:.1f} MB  {seconds:.1f} s  {built.archive}", flush=True
        )


if __name__ == "__main__":
    try:
        main()
    except BuildError as error:
        sys.exit(str(error))
