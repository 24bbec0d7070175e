# SPDX-License-Identifier: Apache-2.0
"""How generated YAML is written."""

from collections.abc import Mapping
from typing import Any

import yaml


class _Dumper(yaml.SafeDumper):
    """Block style, indented lists, no anchors, several lines as a literal block."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002 - not in lists
        super().increase_indent(flow, indentless=False)

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the base class' signature
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def as_yaml(value: Mapping[str, Any]) -> str:
    """The value as one YAML document, keys in their order."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=100, allow_unicode=True)
