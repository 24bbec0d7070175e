# SPDX-License-Identifier: Apache-2.0
"""What several ranks say, put together."""

import pickle

from tandem_connector.contract.messages import MemoryKind, RankMemory
from tandem_connector.exchange.types import BlockId, EngineId, Index, JobId, RequestId, Seconds, StepId, WantId, Write
from tandem_connector.vllm.commands import Submit
from tandem_connector.vllm.orders import AddPeerRanks, FinishedLoad, RankReport, StepOrders, StepReports
from tandem_connector.vllm.ranks import BlocksReceived, PeerUnwritable, Ranks, StepRanEverywhere, WriteEnded
from tandem_connector.vllm.reports import JobEnded, Outcome, PeerLost, Received, Report

WANT = WantId(7)


def indices(*values: int) -> tuple[Index, ...]:
    return tuple(Index(value) for value in values)


def report(rank: int, *reports: Report, step: int = 1) -> RankReport:
    return RankReport(rank, StepId(step), reports)


def two_ranks() -> Ranks:
    ranks = Ranks(2)
    ranks.expect(WANT)
    return ranks


def test_a_block_has_come_when_each_rank_has_its_part() -> None:
    ranks = two_ranks()
    assert ranks.take([report(0, Received(WANT, indices(0, 1)))]) == []
    happened = ranks.take([report(0, Received(WANT, indices(0))), report(1, Received(WANT, indices(1, 2)))])
    assert happened == [StepRanEverywhere(StepId(1)), BlocksReceived(WANT, indices(1))]
    assert ranks.take([report(1, Received(WANT, indices(0)))]) == [BlocksReceived(WANT, indices(0))]


def test_what_one_rank_says_twice_counts_once() -> None:
    ranks = two_ranks()
    assert ranks.take([report(0, Received(WANT, indices(0)), Received(WANT, indices(0)))]) == []


def test_a_want_that_was_forgotten_counts_no_more() -> None:
    ranks = two_ranks()
    ranks.take([report(0, Received(WANT, indices(0)))])
    ranks.forget(WANT)
    assert ranks.take([report(1, Received(WANT, indices(0)))]) == [StepRanEverywhere(StepId(1))]


def test_a_write_is_over_when_it_is_on_each_rank_and_the_worst_end_counts() -> None:
    ranks = two_ranks()
    job = JobId(3)
    assert ranks.take([report(0, JobEnded(job, indices(0), Outcome.UNCERTAIN, "it broke"))]) == []
    happened = ranks.take([report(1, JobEnded(job, indices(0), Outcome.NOT_POSTED, "it was late"))])
    assert happened == [StepRanEverywhere(StepId(1)), WriteEnded(job, Outcome.UNCERTAIN, "it broke")]


def test_a_step_has_run_when_the_last_rank_has_run_it() -> None:
    ranks = two_ranks()
    assert ranks.take([report(0, step=5)]) == []
    assert ranks.take([report(1, step=4)]) == [StepRanEverywhere(StepId(4))]
    assert ranks.take([report(1, step=5)]) == [StepRanEverywhere(StepId(5))]
    assert ranks.take([report(1, step=5)]) == []


def test_a_peer_that_one_rank_lost_is_told() -> None:
    assert two_ranks().take([report(1, PeerLost(EngineId("p"), "gone"))]) == [PeerUnwritable(EngineId("p"), "gone")]


def test_reports_of_several_ranks_are_kept_side_by_side() -> None:
    one, other = StepReports((report(0),)), StepReports((report(1),))
    assert one.merged(other).ranks == (report(0), report(1))


def test_orders_and_reports_survive_the_way_between_processes() -> None:
    write = Write(
        *(JobId(1), EngineId("p"), WANT, indices(0), (BlockId(4),), (BlockId(5),), Seconds(9.0), StepId(2)),
    )
    memory = RankMemory(b"agent", MemoryKind.DRAM, 0, (4096,), (512,))
    orders = StepOrders(
        StepId(2),
        (AddPeerRanks(EngineId("p"), (memory,), 10), Submit((write,))),
        (FinishedLoad(RequestId("r"), (BlockId(4),)),),
    )
    reports = StepReports((report(0, JobEnded(JobId(1), indices(0), Outcome.WRITTEN)),))
    assert pickle.loads(pickle.dumps(orders)) == orders
    assert pickle.loads(pickle.dumps(reports)) == reports
