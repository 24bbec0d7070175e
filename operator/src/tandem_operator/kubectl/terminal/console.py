# SPDX-License-Identifier: Apache-2.0
"""Where views are drawn."""

import json
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import yaml
from rich.console import Console, RenderableType

from tandem_operator.api.base import ApiModel

_WITHOUT_TERMINAL = 2000
"""Columns where the output isn't a terminal: lines are for `grep`, and are not to depend on the width of a window."""


def draw(*what: RenderableType) -> None:
    """On standard output, in colours where it is a terminal."""
    width = None if sys.stdout.isatty() else _WITHOUT_TERMINAL
    console = Console(highlight=False, width=width)
    for each in what:
        console.print(each)


def print_json(view: ApiModel | Iterable[ApiModel]) -> None:
    """A view, or a list of views."""
    content = _json(view) if isinstance(view, ApiModel) else [_json(each) for each in view]
    sys.stdout.write(json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def _json(view: ApiModel) -> object:
    return view.model_dump(by_alias=True, mode="json")


def print_objects(objects: Iterable[Mapping[str, Any]], output: str) -> None:
    """Kubernetes objects, as YAML documents or as a List in JSON, to be read by `kubectl`."""
    if output == "json":
        listed = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        sys.stdout.write(json.dumps(listed, indent=2, ensure_ascii=False) + "\n")
        return
    for each in objects:
        # Through JSON: what a plan shares between objects would be written as YAML's anchors.
        plain = json.loads(json.dumps(each))
        sys.stdout.write("---\n" + yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=1000))
