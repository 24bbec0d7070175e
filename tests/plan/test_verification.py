# SPDX-License-Identifier: Apache-2.0
"""What is known of engines, from one conversation to the next."""

from hypothesis import given
from hypothesis import strategies as st

from tandem_connector.contract.types import EngineId
from tandem_operator.api.status import Reason
from tandem_operator.plan.conversation import Result, Results, Standing
from tandem_operator.plan.verification import Fabric, PairRecord, Record, Report, updated

D, P, Q = EngineId("uid-d-0.1"), EngineId("uid-p-0.1"), EngineId("uid-q-0.1")
TCP = Fabric(backend="UCX", provider="", devices=0)
SHOWN = Result(Standing.SHOWN, Reason.VERIFIED)
FAILED = Result(Standing.FAILED, Reason.NOTHING_MOVED, "why")
OPEN = Result(Standing.OPEN, Reason.INCONCLUSIVE)


def a_report(results: Results, **fabrics: Fabric) -> Report:
    return Report({"d": D, "p": P}, "d", results, fabrics)


def after(*reports: Report, record: Record | None = None, listed: tuple[str, ...] = (P, Q)) -> Record | None:
    return updated(record, "d", D, listed, reports)


def test_nothing_is_known_before_anything_was_reported() -> None:
    assert after() is None


def test_failures_in_succession_are_counted_and_one_success_ends_them() -> None:
    failed = after(a_report({P: FAILED}), a_report({P: FAILED}))
    assert failed is not None
    assert (failed.pairs[P].failures, failed.pairs[P].detail) == (2, "why")
    shown = after(a_report({P: SHOWN}), record=failed)
    assert shown is not None
    assert (shown.pairs[P].standing, shown.pairs[P].failures) == (Standing.SHOWN, 0)


def test_a_conversation_that_shows_nothing_changes_nothing_of_what_is_known() -> None:
    for known in (SHOWN, FAILED):
        before = after(a_report({P: known}))
        assert after(a_report({P: OPEN}), record=before) == before


def test_decodes_own_failure_is_over_when_a_conversation_does_not_tell_of_it() -> None:
    failed = after(a_report({"": FAILED}))
    assert failed is not None
    assert failed.pairs[""].failures == 1
    assert after(a_report({P: SHOWN}), record=failed) == after(a_report({P: SHOWN}))


def test_what_is_known_of_an_engine_that_is_no_peer_any_more_is_forgotten() -> None:
    before = after(a_report({P: SHOWN, Q: SHOWN}))
    assert after(record=before, listed=(Q,)) == after(a_report({Q: SHOWN}), listed=(Q,))


def test_a_report_of_another_process_says_nothing() -> None:
    assert updated(None, "d", EngineId("uid-d-1.2"), (P,), [a_report({P: SHOWN})]) is None


def test_prefill_learns_over_what_it_exchanges_and_nothing_of_pairs() -> None:
    assert updated(None, "p", P, (D,), [a_report({P: SHOWN}, p=TCP)]) == Record(engine=P, fabric=TCP)


def test_a_record_is_of_the_process_that_runs_now() -> None:
    record = after(a_report({P: SHOWN}, d=TCP))
    assert record is not None
    assert Record.read(record.to_annotation(), D) == record
    assert Record.read(record.to_annotation(), EngineId("uid-d-1.2")) is None
    assert Record.read(record.to_annotation(), None) is None


@given(st.text() | st.binary().map(str) | st.just('{"engine": "uid-d-0.1", "pairs": {"p": {"standing": "odd"}}}'))
def test_an_annotation_that_somebody_has_spoilt_says_nothing(annotation: str) -> None:
    assert Record.read(annotation, D) is None


_RESULTS = st.dictionaries(st.sampled_from(["", P, Q]), st.sampled_from([SHOWN, FAILED, OPEN]))


@given(st.lists(_RESULTS), st.lists(_RESULTS))
def test_reports_written_one_by_one_or_together_leave_the_same(first: list[Results], second: list[Results]) -> None:
    both = [a_report(each) for each in (*first, *second)]
    at_once = after(*both)
    one_by_one = None
    for report in both:
        one_by_one = after(report, record=one_by_one)
    assert at_once == one_by_one
    if at_once is not None:
        assert Record.read(at_once.to_annotation(), D) == at_once


def test_records_do_not_grow_without_bound() -> None:
    record = after(*(a_report({P: Result(Standing.FAILED, Reason.TIMEOUT, "x" * 1000)}) for _ in range(1100)))
    assert record is not None
    assert record.pairs[P] == PairRecord(
        standing=Standing.FAILED, reason=Reason.TIMEOUT, failures=1000, detail="x" * 300
    )
