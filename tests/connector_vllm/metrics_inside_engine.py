# SPDX-License-Identifier: Apache-2.0
"""Checks of the connector's metrics as vLLM's API servers show them: see `inside_engine.py`."""

import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest, values
from prometheus_client.multiprocess import MultiProcessCollector

from e2e.exchange.numbers import value_of
from tandem_connector.vllm.prometheus import TandemMetrics

LABELS = ["model_name", "engine"]
NAME = "tandem_peer_bytes_written_total"


def an_api_server(registry: CollectorRegistry) -> TandemMetrics:
    """Of two data-parallel ranks."""
    return TandemMetrics(
        SimpleNamespace(kv_transfer_config=None),
        {kind: partial(kind, registry=registry) for kind in (Counter, Gauge, Histogram)},
        LABELS,
        {rank: ["m", str(rank)] for rank in (0, 1)},
    )


def news(gone: tuple[str, ...] = (), **written: int) -> dict[str, Any]:
    """Bytes written to each peer."""
    counters = {
        "bytes_written": {"forward": sum(written.values())},
        "peer_bytes_written": {f"{peer}|forward": amount for peer, amount in written.items()},
    }
    return {"counters": counters if written else {}, "gauges": {}, "waits": [], "gone": list(gone)}


def series_of_a_peer_that_is_gone_go_for_the_rank_that_says_so_and_the_engines_sum_stays() -> None:
    registry = CollectorRegistry()
    server = an_api_server(registry)
    for rank in (0, 1):
        server.observe(news(d0=5, d1=7), rank)
    server.observe(news(gone=("d0", "never-seen")), 0)
    text = generate_latest(registry).decode()
    assert f'{NAME}{{engine="0",model_name="m",peer="d0"' not in text
    assert 'tandem_peer_bytes_written_created{engine="0",model_name="m",peer="d0"' not in text
    assert [value_of(text, NAME, engine=rank) for rank in ("0", "1")] == [7, 12]
    assert value_of(text, "tandem_bytes_written_total", engine="0") == 12
    server.observe(news(d0=1), 0)
    assert value_of(generate_latest(registry).decode(), NAME, engine="0", peer="d0") == 1


def several_api_servers_together_show_what_each_was_told_and_keep_the_series_of_those_who_are_gone() -> None:
    with tempfile.TemporaryDirectory() as folder, files_in(folder):
        servers = []
        for number in (1, 2):
            values.ValueClass = values.MultiProcessValue(lambda number=number: number)  # type: ignore[no-untyped-call]
            servers.append(an_api_server(CollectorRegistry()))
        for turn, server in enumerate([*servers, *servers]):
            server.observe(news(d0=10**turn, d1=1), turn % 2)
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # the library's, that it can't remove anything
            servers[0].observe(news(gone=("d0",)), 0)
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        text = generate_latest(registry).decode()
    assert [value_of(text, NAME, engine=rank, peer="d0") for rank in ("0", "1")] == [101, 1010]
    for rank in ("0", "1"):
        assert value_of(text, NAME, engine=rank) == value_of(text, "tandem_bytes_written_total", engine=rank) > 0


@contextmanager
def files_in(folder: str) -> Iterator[None]:
    """As `setup_multiprocess_prometheus` of vLLM has it, when the client library is imported after."""
    before = values.ValueClass
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
    try:
        yield
    finally:
        del os.environ["PROMETHEUS_MULTIPROC_DIR"]
        values.ValueClass = before
