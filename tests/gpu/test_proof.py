# SPDX-License-Identifier: Apache-2.0
"""What must be true of a conversation, and that it is noticed when it is not."""

from dataclasses import replace

from e2e.account import EngineAccount
from e2e.gpu.proof import Finding, SeenTurn, Totals, findings

BLOCK, BYTES = 32, 1000
FIRST = SeenTurn(
    prompt=800,
    output=97,
    totals=Totals(
        prefill=EngineAccount(computed=800, cached=0, received_bytes=3 * BYTES),
        # 799 tokens have 24 full blocks; the last block, which is full, is computed for its last token.
        decode=EngineAccount(computed=32, cached=0, received=768, received_bytes=24 * BYTES),
        sent_forward=24 * BYTES,
        # 896 tokens have KV: 28 blocks, of which the prompt filled 25.
        sent_back=3 * BYTES,
    ),
)
SECOND = SeenTurn(
    prompt=997,
    output=96,
    totals=Totals(
        # 28 blocks are known to both.
        prefill=EngineAccount(computed=101, cached=896, received_bytes=3 * BYTES),
        decode=EngineAccount(computed=5, cached=896, received=96, received_bytes=3 * BYTES),
        sent_forward=3 * BYTES,
        # 1092 tokens have KV: 34 blocks, of which the prompt filled 31.
        sent_back=3 * BYTES,
    ),
)


def failed(*turns: SeenTurn) -> list[str]:
    return [str(finding) for finding in findings(turns, BLOCK, BYTES) if not finding.holds]


def test_a_conversation_that_computes_and_moves_what_it_must_holds() -> None:
    assert failed(FIRST, SECOND) == []


def test_a_token_too_many_is_noticed_and_named() -> None:
    again = replace(SECOND.totals, prefill=replace(SECOND.totals.prefill, computed=133, cached=864))

    assert failed(FIRST, replace(SECOND, totals=again)) == [
        "FAILED turn 2: tokens that prefill computed: 133, not 101",
        "FAILED turn 2: tokens that prefill had: 864, not 896",
    ]


def test_bytes_that_were_sent_and_did_not_arrive_are_noticed() -> None:
    lost = replace(FIRST.totals, prefill=replace(FIRST.totals.prefill, received_bytes=2 * BYTES))

    assert failed(replace(FIRST, totals=lost)) == ["FAILED turn 1: bytes received by prefill: 2000, not 3000"]


def test_a_finding_says_what_was_seen() -> None:
    assert str(Finding("this", 1, 1)) == "ok this: 1"
    assert str(Finding("this", 1, 2)) == "FAILED this: 2, not 1"


def test_totals_are_read_from_both_engines_metrics_and_subtracted() -> None:
    metrics = """
# TYPE tandem_prompt_tokens_total counter
tandem_prompt_tokens_total{engine="0",source="computed"} 12.0
# TYPE tandem_bytes_written_total counter
tandem_bytes_written_total{engine="0",purpose="forward"} 300.0
tandem_bytes_written_total{engine="0",purpose="reverse_push"} 100.0
# TYPE tandem_bytes_received_total counter
tandem_bytes_received_total{engine="0",purpose="forward"} 50.0
"""
    totals = Totals.of(metrics, "# TYPE tandem_bytes_written_total counter\n")

    assert totals.prefill == EngineAccount(computed=12, received_bytes=50)
    assert (totals.sent_forward, totals.sent_back) == (400, 0)
    assert totals.since(totals) == Totals(EngineAccount(), EngineAccount(), 0, 0)
