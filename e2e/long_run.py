# SPDX-License-Identifier: Apache-2.0
"""What long runs that are drawn from a seed have in common: their options, and a folder that is kept when something has failed."""

import argparse
import secrets
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

PlanT = TypeVar("PlanT")


@dataclass(frozen=True)
class LongRun(Generic[PlanT]):
    """One that begins."""

    plan: PlanT
    seed: int
    folder: Path
    """Of this run. It exists, and is empty."""
    kept: Path
    """Where runs keep what others may use again."""

    def end(self, figures: Sequence[str], failures: Sequence[str]) -> None:
        """Print the figures, and remove the folder if nothing has failed.

        Raises:
            SystemExit: something has; it says what, and names seed and folder.
        """
        print("\n".join(figures), flush=True)
        if failures:
            sys.exit("\n".join([*failures, f"seed {self.seed}; everything is kept in {self.folder}"]))
        shutil.rmtree(self.folder)


def begin(
    plan: type[PlanT],
    parser: argparse.ArgumentParser,
    arguments: Sequence[str],
    *,
    kept: Path,
    options: Mapping[str, str],
) -> LongRun[PlanT]:
    """Read the command line, and make the run's folder.

    Args:
        plan: a dataclass with a field `seed`, and a default for each option.
        parser: without any option yet.
        arguments: of the command line.
        kept: the folder of all its runs.
        options: fields of the plan and what `--help` says of them. One that is true by default is switched off by `--no-NAME`.

    Raises:
        SystemExit: they are wrong, or ask for help.
    """
    parser.add_argument("--seed", type=int, default=None, help="draw the same again")
    for name, text in options.items():
        default = getattr(plan, name)
        if default is True:
            parser.add_argument(f"--no-{name}", dest=name, action="store_false", help=text)
        else:
            said = f"{text} (default: %(default)s)"
            parser.add_argument(f"--{name}", type=type(default), default=default, help=said)
    chosen = parser.parse_args(arguments)
    chosen.seed = secrets.randbits(31) if chosen.seed is None else chosen.seed
    folder = kept.absolute() / f"{time.strftime('%Y%m%d-%H%M%S')}-{chosen.seed}"
    folder.mkdir(parents=True)
    print(f"seed {chosen.seed}; logs and journals in {folder}", flush=True)
    return LongRun(plan(**vars(chosen)), chosen.seed, folder, kept.absolute())
