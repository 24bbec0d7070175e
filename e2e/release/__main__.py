# SPDX-License-Identifier: Apache-2.0
"""Command line of the release: check the tag, tell what changed, make the chart that is published. Needs Python alone."""

import argparse
import sys
from pathlib import Path

from e2e.release.changelog import notes
from e2e.release.chart import write_published_chart
from e2e.release.versions import ROOT, NotReleasableError, check_versions, version_of


def main(arguments: list[str] | None = None) -> int:
    """Run the sub-command that the arguments name. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m e2e.release", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in (
        ("check", "hold the sources and the changelog to a tag, and print its version"),
        ("notes", "print what the changelog says of a tag's version"),
    ):
        commands.add_parser(name, help=text).add_argument("tag")
    chart = commands.add_parser("chart", help="write the chart with images by digest")
    chart.add_argument("--registry", required=True, help="where the images are, as ghcr.io/OWNER")
    chart.add_argument("--output", type=Path, required=True, help="folder to make")
    chart.add_argument("digests", nargs="+", metavar="NAME=sha256:...")
    options = parser.parse_args(arguments)
    try:
        if options.command == "chart":
            digests = dict(each.split("=", 1) for each in options.digests)
            write_published_chart(ROOT / "charts/tandem", options.output, options.registry, digests)
            return 0
        version = version_of(options.tag)
        told = notes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), version)
        check_versions(version)
        print(version if options.command == "check" else told)
    except NotReleasableError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
