# SPDX-License-Identifier: Apache-2.0
"""One prefill and two decode engines with a key, with pools so small that a crowd doesn't fit, and with windows."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e.cluster.progress import wait_until
from e2e.engine.environment import build_environment
from e2e.exchange.afterwards import metrics_now
from e2e.exchange.engines import Engine, EngineSpec, running
from e2e.exchange.numbers import value_of
from e2e.exchange.window import MODULE
from e2e.suite.exchange.conftest import EVERY_PREFILL, Pair, Reference
from tandem_connector.contract.environment import KEYS_FILE
from tandem_connector.contract.keys import ExchangeKey
from tandem_connector.contract.peers import Peer
from tandem_connector.contract.types import Role
from tandem_connector.vllm.keys import CurveKeys, load_key

PATIENCE = 3.0
"""Seconds, besides 10 ms for each token, for which decode waits for a prefill engine that shows no progress."""
LENGTH = ("--max-model-len", "2048")
SMALL_POOL = ("--num-gpu-blocks-override", "90", *LENGTH)
"""For prefill: four of a crowd fit."""
MIDDLE_POOL = ("--num-gpu-blocks-override", "200", *LENGTH)
"""For decode, which lets peers write into all but what its longest request may need. A crowd fits until its answers have grown."""
IN_TURNS = ("--max-num-batched-tokens", "512", "--long-prefill-token-threshold", "64")
"""Chunks of several prompts go into one step, so that more are begun than there are blocks for."""
EXTRA = {**EVERY_PREFILL, "rest": 1.0, "patience": PATIENCE, "quarantine_share": 0.5, "key_overlap": 8.0}


@dataclass(frozen=True)
class Three(Pair):
    """A pair, and another decode engine."""

    key_file: Path

    @property
    def keys(self) -> CurveKeys:
        """The resource's."""
        return CurveKeys.of(load_key(self.key_file))

    @property
    def other(self) -> Engine:
        """The other decode engine."""
        return self.engines["other"]


@pytest.fixture(scope="package")
def three(reference: Reference, model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Three]:
    """For all modules; only the last one ends engines."""
    folder = tmp_path_factory.mktemp("three")
    key = folder / "exchange.json"
    key.write_text(ExchangeKey.generate().to_file())

    def spec(role: Role, core: str, *arguments: str) -> EngineSpec:
        return EngineSpec(role, core, arguments, EXTRA, {KEYS_FILE: str(key)}, module=MODULE)

    with running(build_environment(), model, folder) as engines:
        engines.start(
            prefill=spec(Role.PREFILL, "0", *SMALL_POOL, *IN_TURNS),
            decode=spec(Role.DECODE, "1", *MIDDLE_POOL),
            other=spec(Role.DECODE, "1", *MIDDLE_POOL),
        )
        engines.wait_for_connections()
        yield Three(engines, model, key)


def tell_decode(pair: Pair, *peers: Peer, gone: Iterable[str] = ()) -> None:
    """Make decode know these and nobody else, and that these pods are gone; wait until it does."""

    def accepted() -> float:
        return value_of(metrics_now(pair.decode), "tandem_peer_tables_total", what="accepted")

    before = accepted()
    pair.engines.tell_only(pair.decode, *peers, gone=gone)
    wait_until("decode to follow its table", lambda: accepted() > before, 15.0)
