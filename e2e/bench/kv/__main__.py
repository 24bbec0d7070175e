# SPDX-License-Identifier: Apache-2.0
"""`python -m e2e.bench.kv`: conversations of several turns in seven ways, on two cores and with root (see `--help`)."""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from e2e.bench.kv.cast import BIDIRECTIONAL, NO_REVERSE, PULL, REVERSE, THRESHOLD, Cast
from e2e.bench.kv.figures import Results
from e2e.bench.kv.run import print_ratios, run_cast
from e2e.bench.kv.scale import Scale
from e2e.bench.kv.wants import print_cost_of_wants
from e2e.engine.environment import engine_environment
from e2e.signals import end_in_order_when_told

CASTS = {
    "pull": Cast(upstream=PULL),
    "tandem": Cast(tandem=(NO_REVERSE, REVERSE, THRESHOLD), plain=True, asides=True),
    "bidirectional": Cast(upstream=BIDIRECTIONAL),
    "forgetting": Cast(tandem=(NO_REVERSE, REVERSE), forgets=True),
    "forgetting-bidirectional": Cast(upstream=BIDIRECTIONAL, forgets=True),
    "quick": Cast(tandem=(REVERSE,)),
}
"""Whatever was up when the others ran is down: engines are compared as they are, and upstream's don't rest."""


QUICK = {"only": ["quick"], "tokens": 1_536, "turns": 3, "output": 32}
"""Whether it works, in a minute or two."""


def main(arguments: Sequence[str]) -> int:
    """Run it; 1 if a goal on what is computed or moved was missed, or it was stopped."""
    options = _options(arguments)
    environment = engine_environment()
    if not environment.complete:
        print("the engine environment isn't built: python -m e2e.engine build", file=sys.stderr)
        return 1
    scale = Scale.of(options.tokens, options.turns, options.output, options.pairs)
    results, missed = Results(), []
    print_cost_of_wants()
    with tempfile.TemporaryDirectory(prefix="bench-kv-") as scratch:
        folder = options.keep or Path(scratch)
        for name in options.only:
            missed += run_cast(CASTS[name], scale, environment, folder / name, results)
    print_ratios(results)
    for each in missed:
        print(f"missed {each}", file=sys.stderr)
    return 1 if missed else 0


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m e2e.bench.kv", description=__doc__)
    parser.add_argument("--tokens", type=int, default=8_192, help="to which one conversation alone grows")
    parser.add_argument("--turns", type=int, default=8)
    parser.add_argument("--output", type=int, default=96, help="tokens of each answer")
    parser.add_argument("--pairs", type=int, default=8, help="of prefills with and without decode waiting")
    every = [name for name in CASTS if name != "quick"]
    parser.add_argument("--only", nargs="+", choices=list(CASTS), default=every, metavar="CAST", help=", ".join(every))
    parser.add_argument("--quick", action="store_true", help="short conversations over few engines: does it all work?")
    parser.add_argument("--keep", type=Path, help="folder for the engines' logs and journals; default: none are kept")
    options = parser.parse_args(arguments)
    if options.quick:
        parser.set_defaults(**QUICK)
        options = parser.parse_args(arguments)
    return options


if __name__ == "__main__":
    end_in_order_when_told()
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit("stopped before its time")
