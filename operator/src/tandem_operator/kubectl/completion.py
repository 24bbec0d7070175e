# SPDX-License-Identifier: Apache-2.0
"""Shell completion of `kubectl tandem`: kubectl runs `kubectl_complete-tandem` with the words typed so far.

The protocol is that of Cobra's completion scripts: a candidate a line, then `:` and a number, of which 4 forbids names of files.
kubectl's own completion has to be set up in the shell (`kubectl completion --help`).
"""

import argparse
import asyncio
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from tandem_operator.api.names import ENGINE_LABEL
from tandem_operator.kubectl.arguments import COMMANDS, OUTPUTS, parser

_FILES_TOO: Final = 0
_NO_FILES: Final = 4
_TAKES_NAMES: Final = frozenset({"status", "explain", "topology", "ui", "bench", "verify", "drain"})
_TAKES_VALUES: Final = frozenset(
    {"-n", "--namespace", "--context", "--timeout", "--port", "--seed", "--url"}
    | {"--conversations", "--turns", "--first-words", "--words", "--max-tokens"}
)
_TAKES_FILES: Final = frozenset({"-f", "--filename", "--kubeconfig"})


def main() -> int:
    """Print the candidates for the last word of the command line."""
    candidates, directive = complete(sys.argv[1:] or [""], _names)
    sys.stdout.write("".join(f"{each}\n" for each in candidates) + f":{directive}\n")
    return 0


def complete(words: Sequence[str], names: Callable[[Sequence[str]], Iterable[str]]) -> tuple[list[str], int]:
    """The candidates for the last of `words`, and Cobra's directive.

    Args:
        words: after `kubectl tandem`; the last is what is being typed, maybe empty.
        names: of the resources, or for `drain` of the engine pods, in the namespace that the words before mean.
    """
    *before, typed = words
    if not before:
        return _beginning(COMMANDS, typed), _NO_FILES
    command, last = before[0], before[-1]
    if last in _TAKES_FILES:
        return [], _FILES_TOO
    if last in ("-o", "--output"):
        return _beginning(OUTPUTS.get(command, ()), typed), _NO_FILES
    if typed.startswith("-"):
        return _beginning(_options(command), typed), _NO_FILES
    if command in _TAKES_NAMES and last not in _TAKES_VALUES:
        return _beginning(names(before), typed), _NO_FILES
    return [], _NO_FILES


def _beginning(candidates: Iterable[str], typed: str) -> list[str]:
    return [each for each in candidates if each.startswith(typed)]


def _options(command: str) -> list[str]:
    for action in parser()._actions:  # noqa: SLF001 -- argparse has no other way to ask what it knows
        if isinstance(action, argparse._SubParsersAction) and command in action.choices:  # noqa: SLF001
            return sorted(action.choices[command]._option_string_actions)  # noqa: SLF001
    return []


def _names(before: Sequence[str]) -> list[str]:
    """Of resources or engine pods in the namespace, as far as they can be had: a completion never complains."""
    from tandem_operator.kube.kinds import POD  # noqa: PLC0415 -- loads a client, which options don't need
    from tandem_operator.kubectl.exits import Failed  # noqa: PLC0415
    from tandem_operator.kubectl.reading import Whereabouts, connected, resources  # noqa: PLC0415

    known = argparse.ArgumentParser(add_help=False, exit_on_error=False)
    for option in ("--namespace", "--context", "--kubeconfig"):
        known.add_argument(option, *(["-n"] if option == "--namespace" else []))
    given, _ = known.parse_known_args(list(before))

    async def listed() -> list[str]:
        place = Whereabouts(given.kubeconfig, given.context, given.namespace)
        async with connected(place) as client:
            if before[0] == "drain":
                found = (await client.list(POD, place.chosen_namespace(), ENGINE_LABEL)).items
            else:
                found = await resources(client, place.chosen_namespace(), ())
            return [each["metadata"]["name"] for each in found]

    try:
        return asyncio.run(listed())
    except Failed:
        return []


if __name__ == "__main__":
    sys.exit(main())
