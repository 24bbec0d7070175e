# SPDX-License-Identifier: Apache-2.0
"""Which part of which job is posted next, and how jobs end."""

from hypothesis import given
from hypothesis import strategies as st

from tandem_connector.exchange.types import BlockId, EngineId, Index, JobId, Seconds, StepId
from tandem_connector.vllm.jobs import Jobs, Limits
from tandem_connector.vllm.pieces import Piece, pieces_of
from tandem_connector.vllm.reports import JobEnded, Outcome
from tandem_connector.vllm.transport import TransferState
from tests.transfer.builders import A, B, C, a_write

NOW = Seconds(100.0)


def jobs(*, per_piece: int = 2, per_peer: int = 4, total: int = 64) -> Jobs:
    return Jobs(Limits(piece_bytes=per_piece, pieces_per_peer=per_peer, pieces=total), block_bytes=1)


def taken(queue: Jobs, now: Seconds = NOW) -> list[Piece]:
    pieces = []
    while (piece := queue.take(now)) is not None:
        pieces.append(piece)
    return pieces


def peers(pieces: list[Piece]) -> list[EngineId]:
    return [piece.write.peer for piece in pieces]


def test_neighbouring_blocks_become_neighbours_in_the_list_with_their_indices() -> None:
    (piece,) = pieces_of(a_write(sources=[7, 5, 6], destinations=[12, 10, 11]), blocks_per_piece=10)

    assert piece.sources == (BlockId(5), BlockId(6), BlockId(7))
    assert piece.destinations == (BlockId(10), BlockId(11), BlockId(12))
    assert piece.indices == (Index(1), Index(2), Index(0))


def test_a_job_larger_than_a_piece_is_cut_between_blocks() -> None:
    pieces = list(pieces_of(a_write(sources=range(5)), blocks_per_piece=2))

    assert [piece.sources for piece in pieces] == [(0, 1), (2, 3), (4,)]


def test_a_piece_has_at_least_one_block_however_long_a_block_is() -> None:
    queue = Jobs(Limits(piece_bytes=10), block_bytes=1000)
    queue.add(a_write(sources=[0, 1]))

    assert [len(piece.sources) for piece in taken(queue)] == [1, 1]


def test_a_job_that_needs_no_step_is_taken_at_once() -> None:
    queue = jobs()
    queue.add(a_write(1))

    assert [piece.write.job for piece in taken(queue)] == [1]
    assert taken(queue) == []


def test_a_job_waits_for_its_step_and_not_for_the_next_one() -> None:
    queue = jobs()
    queue.add(a_write(1, after=5))
    queue.add(a_write(2, after=6))

    queue.step_ran(StepId(4))
    assert taken(queue) == []
    queue.step_ran(StepId(5))
    assert [piece.write.job for piece in taken(queue)] == [1]
    queue.step_ran(StepId(6))
    assert [piece.write.job for piece in taken(queue)] == [2]


def test_a_step_that_has_run_needs_no_waiting() -> None:
    queue = jobs()
    queue.step_ran(StepId(5))
    queue.add(a_write(1, after=5))

    assert len(taken(queue)) == 1


def test_a_later_step_tells_that_the_ones_before_have_run() -> None:
    queue = jobs()
    queue.add(a_write(2, after=6))
    queue.add(a_write(1, after=5))

    queue.step_ran(StepId(9))

    assert [piece.write.job for piece in taken(queue)] == [1, 2]


def test_a_job_ends_written_when_its_last_piece_is() -> None:
    queue = jobs()
    queue.add(a_write(1, sources=range(3)))
    first, second = taken(queue)

    queue.ended(second, TransferState.DONE)
    assert queue.take_ended() == []
    queue.ended(first, TransferState.DONE)

    (ended,) = queue.take_ended()
    assert (ended.job, sorted(ended.written), ended.outcome) == (1, [0, 1, 2], Outcome.WRITTEN)
    assert (queue.running, queue.unended) == (0, 0)


def test_a_job_without_blocks_is_written() -> None:
    queue = jobs()
    queue.add(a_write(1, sources=[]))

    assert queue.take_ended() == [JobEnded(JobId(1), (), Outcome.WRITTEN)]


def test_after_the_deadline_nothing_is_posted_and_the_job_ends() -> None:
    queue = jobs()
    queue.add(a_write(1, deadline=NOW))

    assert taken(queue) == []
    assert queue.take_ended() == [JobEnded(JobId(1), (), Outcome.NOT_POSTED, "the deadline passed")]


def test_just_before_the_deadline_it_is_posted() -> None:
    queue = jobs()
    queue.add(a_write(1, deadline=NOW + 0.001))

    assert len(taken(queue)) == 1


def test_a_deadline_that_passes_while_waiting_for_the_step_ends_the_job() -> None:
    queue = jobs()
    queue.add(a_write(1, after=5, deadline=NOW))

    queue.expire(NOW)
    queue.step_ran(StepId(5))

    assert [ended.outcome for ended in queue.take_ended()] == [Outcome.NOT_POSTED]
    assert taken(queue) == []


def test_a_deadline_that_passes_between_two_pieces_leaves_the_job_until_the_first_has_ended() -> None:
    queue = jobs(per_peer=1)
    queue.add(a_write(1, sources=range(4), deadline=NOW))
    (piece,) = taken(queue, Seconds(NOW - 1))

    queue.expire(NOW)
    assert queue.take_ended() == []
    queue.ended(piece, TransferState.DONE)

    (ended,) = queue.take_ended()
    assert (ended.written, ended.outcome) == ((0, 1), Outcome.NOT_POSTED)


def test_the_next_deadline_is_of_a_job_that_has_not_ended() -> None:
    queue = jobs()
    queue.add(a_write(1, deadline=NOW + 1))
    queue.add(a_write(2, deadline=NOW + 2))
    queue.withdraw([JobId(1)], "withdrawn")

    assert queue.next_deadline() == NOW + 2
    queue.withdraw([JobId(2)], "withdrawn")
    assert queue.next_deadline() is None


def test_peers_take_turns() -> None:
    queue = jobs(per_piece=1)
    queue.add(a_write(1, to=A, sources=range(3)))
    queue.add(a_write(2, to=B, sources=range(2)))
    queue.add(a_write(3, to=C, sources=range(1)))

    assert peers(taken(queue)) == [A, B, C, A, B, A]


def test_a_slow_peer_has_only_its_share_in_flight_and_holds_up_nobody() -> None:
    queue = jobs(per_piece=1, per_peer=2)
    queue.add(a_write(1, to=A, sources=range(5)))
    queue.add(a_write(2, to=B, sources=range(2)))

    first = taken(queue)
    assert peers(first) == [A, B, A, B]
    queue.ended(first[0], TransferState.DONE)
    assert peers(taken(queue)) == [A]


def test_no_more_runs_than_the_limit() -> None:
    queue = jobs(per_piece=1, total=3)
    for number, peer in enumerate((A, B, C, EngineId("d"))):
        queue.add(a_write(number, to=peer))

    first = taken(queue)
    assert (len(first), queue.running) == (3, 3)
    queue.ended(first[0], TransferState.DONE)
    assert peers(taken(queue)) == [EngineId("d")]


def test_after_a_broken_piece_the_rest_of_the_job_is_not_posted_and_its_end_is_uncertain() -> None:
    queue = jobs(per_piece=1, per_peer=2)
    queue.add(a_write(1, sources=range(4)))
    first, second = taken(queue)

    queue.ended(first, TransferState.DONE)
    queue.ended(second, TransferState.BROKEN, "disconnected")

    assert queue.take_ended() == [JobEnded(JobId(1), (Index(0),), Outcome.UNCERTAIN, "disconnected")]
    assert taken(queue) == []


def test_a_piece_that_could_not_be_posted_ends_its_job_as_not_posted() -> None:
    queue = jobs()
    queue.add(a_write(1))
    (piece,) = taken(queue)

    queue.not_posted(piece, "unknown peer")

    assert queue.take_ended() == [JobEnded(JobId(1), (), Outcome.NOT_POSTED, "unknown peer")]


def test_an_uncertain_end_is_not_made_certain_by_what_comes_later() -> None:
    queue = jobs(per_piece=1)
    queue.add(a_write(1, sources=range(2)))
    first, second = taken(queue)

    queue.ended(first, TransferState.BROKEN, "disconnected")
    queue.not_posted(second, "unknown peer")

    (ended,) = queue.take_ended()
    assert (ended.outcome, ended.why) == (Outcome.UNCERTAIN, "disconnected")


def test_dropping_a_peer_ends_its_unposted_jobs_and_no_others() -> None:
    queue = jobs()
    queue.add(a_write(1, to=A))
    queue.add(a_write(2, to=B))
    queue.add(a_write(3, to=A, after=5))

    queue.drop(A, "dropped")

    assert [(ended.job, ended.outcome) for ended in queue.take_ended()] == [
        (1, Outcome.NOT_POSTED),
        (3, Outcome.NOT_POSTED),
    ]
    assert peers(taken(queue)) == [B]


def test_withdrawing_a_job_that_has_ended_changes_nothing() -> None:
    queue = jobs()
    queue.add(a_write(1))
    (piece,) = taken(queue)
    queue.ended(piece, TransferState.DONE)
    assert len(queue.take_ended()) == 1

    queue.withdraw([JobId(1), JobId(99)], "withdrawn")

    assert queue.take_ended() == []


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[str, int]]:
    """Anything that can happen to six jobs, each given once, with a number that chooses among what is possible."""
    given_jobs = [("add", job) for job in range(6)]
    other = st.tuples(
        st.sampled_from(["take", "done", "broken", "refused", "step", "expire", "drop", "withdraw"]), st.integers(0, 5)
    )
    return draw(st.permutations(given_jobs + draw(st.lists(other, max_size=40))))


@given(histories())
def test_whatever_happens_every_job_ends_once_and_the_limits_hold(history: list[tuple[str, int]]) -> None:
    queue = jobs(per_piece=2, per_peer=2, total=3)
    running: list[Piece] = []
    ended: list[JobEnded] = []
    for event, number in [*history, ("step", 9), ("expire", 9)]:
        match event:
            case "add":
                queue.add(
                    a_write(number, to=(A, B)[number % 2], sources=range(number), deadline=number, after=number // 2)
                )
            case "take":
                if (piece := queue.take(Seconds(-1.0))) is not None:
                    running.append(piece)
            case "step":
                queue.step_ran(StepId(number))
            case "expire":
                queue.expire(Seconds(float(number)))
            case "drop":
                queue.drop((A, B)[number % 2], "dropped")
            case "withdraw":
                queue.withdraw([JobId(number)], "withdrawn")
            case _ if running:
                piece = running.pop(number % len(running))
                if event == "refused":
                    queue.not_posted(piece, "refused")
                else:
                    queue.ended(piece, TransferState.DONE if event == "done" else TransferState.BROKEN)
        assert queue.running == len(running) <= 3
        assert all(peers(running).count(peer) <= 2 for peer in (A, B))
        ended += queue.take_ended()
    for piece in running:
        queue.ended(piece, TransferState.DONE)
    ended += queue.take_ended()

    assert sorted(each.job for each in ended) == list(range(6))
    assert all(len(set(each.written)) == len(each.written) for each in ended)
    assert all((len(each.written) == each.job) == (each.outcome is Outcome.WRITTEN) for each in ended)
    assert (queue.running, queue.unended, queue.next_deadline()) == (0, 0, None)
