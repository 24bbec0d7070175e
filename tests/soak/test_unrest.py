# SPDX-License-Identifier: Apache-2.0
"""Which of an engine's gauges say that it is not at rest."""

from dataclasses import replace

from e2e.exchange.unrest import unrest
from tandem_connector.vllm.metrics import GAUGES, SEPARATOR, Meter, State
from tests.connector_vllm.quiet import QUIET

CONNECTED = replace(QUIET, peers=2, peers_refused=0)


def said(state: State) -> str:
    news = Meter().news(state)
    assert news is not None
    lines = []
    for metric in GAUGES:
        for values, value in news["gauges"][metric.name].items():
            parts = zip(metric.labels, values.split(SEPARATOR) if metric.labels else (), strict=True)
            labels = ",".join(f'{name}="{text}"' for name, text in parts)
            lines.append(f"tandem_{metric.name}{{{labels}}} {value}\n")
    return "".join(lines)


def test_an_engine_that_has_done_nothing_and_has_its_peers_is_at_rest() -> None:
    assert unrest(said(CONNECTED), 2) == []


def test_whatever_is_held_is_told_by_its_name() -> None:
    for gauge in ("wants_open", "wants_held", "blocks_quarantined", "blocks_landing", "blocks_pinned", "wants_served"):
        holds = replace(CONNECTED, gauges=replace(CONNECTED.gauges, **{gauge: 3}))
        assert unrest(said(holds), 2) == [f"{gauge} is 3"]


def test_peers_that_are_missing_or_refused_are_told() -> None:
    assert unrest(said(replace(CONNECTED, peers=1)), 2) == ["it is connected to 1 of 2 peers"]
    assert unrest(said(replace(CONNECTED, peers_refused=1)), 2) == ["peers_refused is 1"]


def test_an_engine_with_too_much_in_quarantine_is_not_healthy() -> None:
    assert unrest("tandem_peers_connected 2\n", 2) == ["it is not healthy"]
