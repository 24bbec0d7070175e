# SPDX-License-Identifier: Apache-2.0
"""What the metrics of an engine that nobody uses should not say."""

from e2e.exchange.numbers import value_of
from tandem_connector.vllm.metrics import GAUGES

_AT_REST = {"peers_connected", "healthy", "transport"}
"""Gauges that aren't zero of an engine that does nothing."""


def unrest(metrics: str, peers: int) -> list[str]:
    """What an engine holds for others, or what is wrong with it, in words; nothing of one that is at rest.

    Args:
        metrics: as the engine says them now, in Prometheus' text form.
        peers: as many engines it should be connected to.
    """
    said = {gauge.name: value_of(metrics, f"tandem_{gauge.name}") for gauge in GAUGES}
    wrong = [f"{name} is {value:.0f}" for name, value in said.items() if value and name not in _AT_REST]
    if said["healthy"] != 1:
        wrong.append("it is not healthy")
    if said["peers_connected"] != peers:
        wrong.append(f"it is connected to {said['peers_connected']:.0f} of {peers} peers")
    return wrong
