# SPDX-License-Identifier: Apache-2.0
"""The command line."""

import argparse
import math
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from tandem_operator.settings import Settings

PROGRAM: Final = "kubectl tandem"
_ENDS: Final = """exit status:
  0  done, and what was looked at is well
  1  looked at, and not well: not ready, a fault found, a pod not drained, a turn not answered, a pair not verified
  2  the command line, or a file that it names, can't be acted on
  3  no such object
  4  the cluster can't be reached, or doesn't allow it
  130  interrupted by the keyboard
"""

COMMANDS: Final = {
    "status": "resources as trees: roles, engines, pairs",
    "explain": "why a resource is not ready: the chain of causes, and the next command",
    "topology": "who exchanges KV with whom, and where they are",
    "ui": "a page on this machine that draws a resource's engines, wiring and live flows of KV",
    "bench": "conversations of several turns with a resource's front door, and how long tokens took",
    "doctor": "what is wrong with the cluster: nodes, devices, plugins, installation, with remedies",
    "verify": "hold conversations with a resource's engines now, and tell of each pair whether KV moves and is right",
    "drain": "evict engines, which hand over what they hold",
    "render": "what the operator would create for the resources in a file, offline",
}
"""With what each does."""
OUTPUTS: Final = {
    "status": ("text", "json"),
    "explain": ("text", "json"),
    "topology": ("text", "svg", "json"),
    "ui": ("text", "json"),
    "bench": ("text", "json"),
    "doctor": ("text", "json"),
    "verify": ("text", "json"),
    "drain": ("text", "json"),
    "render": ("yaml", "json"),
}
"""What `--output` takes, the default first."""


def parser() -> argparse.ArgumentParser:
    """Of all commands."""
    top = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Looks at Tandem's resources and at the cluster that they run in; only verify and drain write anything.",
        epilog=_ENDS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    made = {}
    for name, help_ in COMMANDS.items():
        made[name] = commands.add_parser(
            name,
            help=help_,
            description=f"{help_[0].upper()}{help_[1:]}.",
            epilog=_ENDS,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        made[name].add_argument(
            "-o", "--output", choices=OUTPUTS[name], default=OUTPUTS[name][0], help=f"default: {OUTPUTS[name][0]}"
        )
        usual = "default" if name == "render" else "that of the kubeconfig's context"
        made[name].add_argument("-n", "--namespace", help=f"default: {usual}")
        if name != "render":
            made[name].add_argument("--context", help="of the kubeconfig; default: its current one")
            made[name].add_argument("--kubeconfig", type=Path, help="default: KUBECONFIG, else ~/.kube/config")
    made["status"].add_argument("names", nargs="*", metavar="NAME", help="default: all of the namespace")
    for name in ("explain", "topology", "ui", "bench", "verify"):
        made[name].add_argument("name", metavar="NAME")
    made["topology"].add_argument(
        "--bytes", action="store_true", help="also ask the engines how much KV has gone over each pair, each way"
    )
    _add_ui(made["ui"])
    _add_bench(made["bench"])
    made["verify"].add_argument(
        "--timeout", type=_seconds, default=900.0, help="seconds to wait for all pairs; default: 900"
    )
    _add_drain(made["drain"])
    _add_render(made["render"])
    return top


def _add_ui(command: argparse.ArgumentParser) -> None:
    command.add_argument("--port", type=_port, default=0, help="of 127.0.0.1; default: one that is free")
    command.add_argument(
        "--once", action="store_true", help="serve nothing: look twice, two seconds apart, and print what was seen"
    )


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text} is no port: 1 to 65535, or 0 for one that is free")
    return int(text)


def _add_bench(command: argparse.ArgumentParser) -> None:
    for option, default, help_ in (
        ("conversations", 4, "held at once"),
        ("turns", 4, "of each, which resend all before them"),
        ("first-words", 1000, "that the first turn adds"),
        ("words", 100, "that each later turn adds"),
        ("max-tokens", 128, "of an answer, at most"),
    ):
        command.add_argument(f"--{option}", type=_count, default=default, help=f"{help_}; default: {default}")
    command.add_argument(
        "--seed", type=int, help="that words follow from, to say the same again; default: one that no other run has"
    )
    command.add_argument(
        "--timeout", type=_seconds, default=300.0, help="seconds for a turn, to its last token; default: 300"
    )
    command.add_argument(
        "--url",
        type=_url,
        help="of the front door, without /v1; default: kubectl port-forward to one pod of the resource's Service",
    )


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is no number from 1 on")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is no time above 0")
    return seconds


def _url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise argparse.ArgumentTypeError(f"{text} is no URL with http or https")
    return text.rstrip("/").removesuffix("/v1")


def _add_drain(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "pods", nargs="+", metavar="POD", help="one after the other, up to the first that isn't drained"
    )
    command.add_argument("--dry-run", action="store_true", help="only tell what would become of them")
    command.add_argument("--force", action="store_true", help="also the last engine of a role")
    command.add_argument("--no-wait", dest="wait", action="store_false", help="don't wait until they are gone")
    command.add_argument("--timeout", type=float, default=300.0, help="seconds to wait for each; default: 300")


def _add_render(command: argparse.ArgumentParser) -> None:
    defaults = Settings.model_fields
    command.add_argument("-f", "--filename", required=True, help="YAML or JSON; - for standard input")
    for option in ("front_door_image", "connector_image"):
        command.add_argument(
            f"--{option.replace('_', '-')}",
            default=defaults[option].default,
            help="the operator's setting; default: its default",
        )
