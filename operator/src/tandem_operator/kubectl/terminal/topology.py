# SPDX-License-Identifier: Apache-2.0
"""The topology as a table: a row for each decode engine, a column for each prefill engine."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from rich.console import Group
from rich.table import Table
from rich.text import Text

from tandem_connector.contract.types import Role
from tandem_operator.kubectl.terminal import marks
from tandem_operator.kubectl.terminal.pair_matrix import pair_matrix
from tandem_operator.kubectl.views.engine import Engine
from tandem_operator.kubectl.views.pair_flows import PairFlow
from tandem_operator.kubectl.views.topology import TopologyView

_WAYS: Final[Mapping[str, Callable[[PairFlow], float | None]]] = {
    "prefill to decode": lambda flow: flow.forward,
    "decode to prefill": lambda flow: flow.reverse,
}
_KEY = "✓ KV was seen to move   ✗ it fails   · nothing shown yet   … one side knows"


def topology_table(view: TopologyView) -> Group:
    """The engines with their places, and who knows whom."""
    prefill = view.of(Role.PREFILL)
    places = Table("", "prefill", "state", "place", box=None, pad_edge=False)
    for number, engine in enumerate(prefill):
        places.add_row(f"P{number}", engine.pod, marks.state(engine.state), _place(engine))
    matrix = Table(
        "decode", "state", *(f"P{number}" for number in range(len(prefill))), "place", box=None, pad_edge=False
    )
    states = {(pair.prefill, pair.decode): pair.state for pair in view.pairs}
    for engine in view.of(Role.DECODE):
        cells = [
            marks.pair(states[each.pod, engine.pod]) if (each.pod, engine.pod) in states else Text() for each in prefill
        ]
        matrix.add_row(engine.pod, marks.state(engine.state), *cells, _place(engine))
    unread = (Text(f"not read: {words}", style="yellow") for words in view.unread)
    return Group(places, Text(), matrix, *_moved(view), Text(), Text(_KEY, style="dim"), *unread)


def _moved(view: TopologyView) -> Iterator[Table | Text]:
    """What went over the pairs, one way and the other."""
    prefill, decode = ([engine.pod for engine in view.of(role)] for role in (Role.PREFILL, Role.DECODE))
    for title, amount_of in _WAYS.items() if view.moved is not None else ():
        yield Text()
        yield pair_matrix(title, view.moved or (), prefill, decode, amount_of)


def _place(engine: Engine) -> Text:
    return Text(" / ".join(filter(None, (engine.zone, *engine.layers, engine.node))) or "no node", style="dim")
