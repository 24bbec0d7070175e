# SPDX-License-Identifier: Apache-2.0
"""What an expression of PromQL refers to, by a parser of its own grammar."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import promql_parser


@dataclass(frozen=True)
class Selected:
    """A metric, and the labels by which its series are selected."""

    metric: str
    matchers: tuple[tuple[str, str], ...]


def parsed(expression: str) -> Any:
    """The syntax tree, with Grafana's variables replaced as Grafana does.

    Raises:
        ValueError: it is no PromQL.
    """
    for variable, value in {"$__rate_interval": "5m", "$namespace": ".*", "$resource": ".*"}.items():
        expression = expression.replace(variable, value)
    return promql_parser.parse(expression)


def selected(expression: str) -> Iterator[Selected]:
    for node in _nodes(parsed(expression)):
        if isinstance(node, promql_parser.VectorSelector):
            yield Selected(node.name or "", tuple((each.name, each.value) for each in node.matchers.matchers))


def grouped(expression: str) -> Iterator[tuple[frozenset[str], frozenset[str]]]:
    """Labels that each aggregation keeps, and the metrics that it aggregates."""
    for node in _nodes(parsed(expression)):
        if isinstance(node, promql_parser.AggregateExpr) and node.modifier is not None:
            inside = {each.name or "" for each in _nodes(node.expr) if isinstance(each, promql_parser.VectorSelector)}
            yield frozenset(node.modifier.labels), frozenset(inside)


def _nodes(root: Any) -> list[Any]:
    found: list[Any] = []
    promql_parser.walk(root, found.append)
    return found
