# SPDX-License-Identifier: Apache-2.0
"""Turns of the writer over a network that the test holds: what is written, what is reported, and in which order."""

from dataclasses import dataclass, field

import pytest

from tandem_connector.exchange.types import EngineId, Index, JobId, StepId, WantId
from tandem_connector.vllm.commands import (
    AddPeer,
    DropPeer,
    Expect,
    Finish,
    Forget,
    StepRan,
    Submit,
    Withdraw,
)
from tandem_connector.vllm.jobs import Limits
from tandem_connector.vllm.loop import WriterLoop
from tandem_connector.vllm.pacing import Intervals
from tandem_connector.vllm.reports import JobEnded, Outcome, PeerLost, Received, Report
from tests.transfer.builders import A, B, C, a_write
from tests.transfer.in_memory import BLOCK_BYTES, InMemoryTransport, Network, Transfer


@dataclass
class AnEvent:
    """As much of a CUDA event as is queried."""

    done: bool = False

    def query(self) -> bool:
        return self.done


@dataclass
class World:
    """Engines A, B, C of one rank on one network, with one clock."""

    network: Network = field(default_factory=Network)
    transports: dict[EngineId, InMemoryTransport] = field(default_factory=dict)
    writers: dict[EngineId, WriterLoop[Transfer]] = field(default_factory=dict)
    now: float = 100.0
    cpu: float = 0.0

    def with_engine(self, engine: EngineId, limits: Limits = Limits(), blocks: int = 16) -> "World":  # noqa: B008
        transport = self.transports[engine] = InMemoryTransport(self.network, f"{engine}/0", blocks)
        transport.blocks[:] = 0
        self.writers[engine] = WriterLoop(
            transport,
            agent_of=lambda peer: f"{peer}/0",
            limits=limits,
            intervals=Intervals(),
            clock=lambda: self.now,
            cpu_clock=lambda: self.cpu,
        )
        return self

    def connected(self, source: EngineId, target: EngineId) -> "World":
        transport = self.transports[target]
        self.writers[source].handle(AddPeer(target, transport.memory(), transport.geometry.blocks))
        return self

    def turn(self, engine: EngineId) -> list[Report]:
        self.writers[engine].turn()
        return self.writers[engine].take_reports()


@pytest.fixture
def world() -> World:
    world = World().with_engine(A).with_engine(B).connected(A, B)
    numbers = range(1, world.transports[A].blocks.size // BLOCK_BYTES + 1)
    for place, number in enumerate(numbers):
        world.transports[A].blocks[place // 16, place % 16] = number
    return world


def test_a_write_lands_in_its_places_in_all_regions_and_nowhere_else(world: World) -> None:
    expected = world.transports[B].blocks.copy()
    expected[:, [9, 3]] = world.transports[A].blocks[:, [2, 5]]

    world.writers[A].handle(Submit((a_write(1, sources=[2, 5], destinations=[9, 3]),)))
    world.turn(A)
    world.network.deliver()

    assert (world.transports[B].blocks == expected).all()
    assert world.turn(A) == [JobEnded(JobId(1), (Index(0), Index(1)), Outcome.WRITTEN)]


def test_the_wanter_is_told_of_the_indices_that_arrived(world: World) -> None:
    world.writers[B].handle(Expect(WantId(7), A, 2))
    world.writers[A].handle(Submit((a_write(want=7, sources=[2, 5]),)))
    world.turn(A)

    assert world.turn(B) == []
    world.network.deliver()
    assert world.turn(B) == [Received(WantId(7), (Index(0), Index(1)))]


def test_a_forgotten_want_is_not_reported(world: World) -> None:
    world.writers[B].handle(Expect(WantId(7), A, 1))
    world.writers[A].handle(Submit((a_write(want=7),)))
    world.turn(A)
    world.writers[B].handle(Forget(WantId(7)))
    world.network.deliver()

    assert world.turn(B) == []
    assert world.writers[B].counts.notifications.late == 1


def test_garbage_from_the_network_is_counted_and_the_writer_goes_on(world: World) -> None:
    world.writers[B].handle(Expect(WantId(7), A, 1))
    world.transports[B].inbox.append(("a/0", b"garbage"))

    assert world.turn(B) == []
    assert world.writers[B].counts.notifications.malformed == 1


def test_what_a_step_computes_is_read_only_when_its_event_has_completed(world: World) -> None:
    event = AnEvent()
    world.writers[A].handle(Submit((a_write(sources=[2], after=5),)))
    world.turn(A)
    assert world.transports[A].posted == []

    world.writers[A].handle(StepRan(StepId(5), event))
    world.turn(A)
    assert world.transports[A].posted == []

    world.transports[A].blocks[:, 2] = 77
    event.done = True
    world.turn(A)
    world.network.deliver()
    assert (world.transports[B].blocks[:, 2] == 77).all()


def test_an_event_tells_nothing_before_those_of_earlier_steps(world: World) -> None:
    first, second = AnEvent(), AnEvent(done=True)
    world.writers[A].handle(Submit((a_write(after=6),)))
    world.writers[A].handle(StepRan(StepId(5), first))
    world.writers[A].handle(StepRan(StepId(6), second))
    world.turn(A)
    assert world.transports[A].posted == []

    first.done = True
    world.turn(A)
    assert len(world.transports[A].posted) == 1


def test_a_step_without_event_has_run(world: World) -> None:
    world.writers[A].handle(Submit((a_write(after=5),)))
    world.writers[A].handle(StepRan(StepId(5), None))
    world.turn(A)

    assert len(world.transports[A].posted) == 1


def test_a_step_that_runs_on_the_device_is_looked_at_often_only_while_a_write_waits_for_it(world: World) -> None:
    writer = world.writers[A]
    writer.handle(StepRan(StepId(5), AnEvent()))
    assert writer.turn() == Intervals().idle

    writer.handle(Submit((a_write(after=5),)))
    assert max(writer.turn() for _ in range(10)) <= Intervals().moving


def test_after_its_deadline_a_job_is_not_posted(world: World) -> None:
    world.writers[A].handle(Submit((a_write(deadline=101.0, after=5),)))
    world.turn(A)
    world.now = 101.0
    world.writers[A].handle(StepRan(StepId(5), None))

    assert world.turn(A) == [JobEnded(JobId(1), (), Outcome.NOT_POSTED, "the deadline passed")]
    assert world.transports[A].posted == []


def test_the_writer_wakes_for_a_deadline(world: World) -> None:
    world.writers[A].handle(Submit((a_write(deadline=100.25, after=5),)))

    assert world.writers[A].turn() == pytest.approx(0.25)


def test_a_job_for_an_unknown_peer_ends_not_posted(world: World) -> None:
    world.writers[A].handle(Submit((a_write(to=C),)))

    (ended,) = world.turn(A)
    assert isinstance(ended, JobEnded)
    assert ended.outcome is Outcome.NOT_POSTED


def test_a_job_outside_the_peers_memory_ends_not_posted_and_the_peer_stays(world: World) -> None:
    world.writers[A].handle(Submit((a_write(1, sources=[0], destinations=[16]), a_write(2))))

    (ended,) = world.turn(A)
    assert isinstance(ended, JobEnded)
    assert (ended.job, ended.outcome) == (1, Outcome.NOT_POSTED)
    assert len(world.transports[A].posted) == 1


def test_a_peer_that_dies_under_a_write_is_lost_and_its_jobs_are_uncertain(world: World) -> None:
    world.writers[A].handle(Submit((a_write(1), a_write(2, after=5))))
    world.turn(A)
    world.network.kill("b/0")
    world.network.deliver()

    lost, *ended = world.turn(A)
    assert isinstance(lost, PeerLost)
    assert lost.peer == B
    assert {(each.job, each.outcome) for each in ended if isinstance(each, JobEnded)} == {
        (1, Outcome.UNCERTAIN),
        (2, Outcome.NOT_POSTED),
    }


def test_a_peer_that_died_before_is_noticed_when_posting(world: World) -> None:
    world.network.kill("b/0")
    world.writers[A].handle(Submit((a_write(1), a_write(2))))

    lost, first, second = world.turn(A)
    assert isinstance(lost, PeerLost)
    assert isinstance(first, JobEnded)
    assert isinstance(second, JobEnded)
    assert {first.outcome, second.outcome} == {Outcome.UNCERTAIN, Outcome.NOT_POSTED}
    assert world.transports[A].peers == {}


def test_a_dropped_peers_transfers_are_released_before_its_connection(world: World) -> None:
    world.writers[A].handle(Submit((a_write(1), a_write(2))))
    world.turn(A)

    world.writers[A].handle(DropPeer(B))

    assert world.network.calls == ["release to b/0", "release to b/0", "drop b/0"]
    assert [type(report) for report in world.turn(A)] == [JobEnded, JobEnded]


def test_a_new_incarnation_at_the_same_place_is_written_and_the_old_one_is_not(world: World) -> None:
    again = EngineId("b-again")
    world.with_engine(again)
    world.writers[A].handle(DropPeer(B))
    world.connected(A, again)
    world.writers[A].handle(Submit((a_write(1, to=B, sources=[3]), a_write(2, to=again, sources=[4]))))
    world.turn(A)
    world.network.deliver()

    assert not world.transports[B].blocks.any()
    assert (world.transports[again].blocks[:, 4] == world.transports[A].blocks[:, 4]).all()


def test_a_peer_that_is_added_again_is_dropped_first(world: World) -> None:
    world.connected(A, B)

    assert world.network.calls == ["drop b/0"]
    world.writers[A].handle(Submit((a_write(),)))
    world.turn(A)
    assert len(world.transports[A].posted) == 1


def test_a_peer_with_other_blocks_is_lost_at_once(world: World) -> None:
    other = InMemoryTransport(world.network, "c/0", regions=3)
    world.writers[A].handle(AddPeer(C, other.memory(), 16))

    assert world.turn(A) == [PeerLost(C, "the peer has 3 regions of KV memory, this engine 2")]


def test_a_withdrawn_job_is_not_posted(world: World) -> None:
    world.writers[A].handle(Submit((a_write(1, after=5),)))
    world.writers[A].handle(Withdraw((JobId(1),)))
    world.writers[A].handle(StepRan(StepId(5), None))

    assert world.turn(A) == [JobEnded(JobId(1), (), Outcome.NOT_POSTED, "withdrawn")]
    assert world.transports[A].posted == []


def test_a_write_to_one_of_many_peers_waits_for_none_of_the_others() -> None:
    world = World().with_engine(A)
    engines = [EngineId(f"peer-{number}") for number in range(64)]
    for engine in engines:
        world.with_engine(engine).connected(A, engine)
    world.transports[A].blocks[:] = 5
    world.writers[A].handle(Submit(tuple(a_write(number, to=engine) for number, engine in enumerate(engines))))

    world.turn(A)
    world.network.deliver()

    assert all((world.transports[engine].blocks[:, 0] == 5).all() for engine in engines)
    assert len(world.turn(A)) == 64


def test_shutdown_waits_for_what_runs_and_posts_nothing_more(world: World) -> None:
    writer = world.writers[A]
    writer.handle(Submit((a_write(1),)))
    world.turn(A)
    writer.handle(Finish(patience=2.0))
    writer.handle(Submit((a_write(2),)))

    assert [report.job for report in world.turn(A) if isinstance(report, JobEnded)] == [2]
    assert not writer.finished
    world.network.deliver()
    assert [report.job for report in world.turn(A) if isinstance(report, JobEnded)] == [1]
    assert writer.finished


def test_shutdown_ends_when_its_patience_does_and_closes_in_order(world: World) -> None:
    writer = world.writers[A]
    writer.handle(Submit((a_write(1),)))
    world.turn(A)
    writer.handle(Finish(patience=2.0))
    assert not writer.finished
    world.now += 2.0

    assert writer.finished
    writer.close()

    assert world.network.calls == ["release to b/0", "drop b/0", "close a/0"]
    (ended,) = writer.take_reports()
    assert isinstance(ended, JobEnded)
    assert ended.outcome is Outcome.UNCERTAIN


def test_a_poll_that_took_cpu_time_has_moved_data_and_the_next_follows_soon(world: World) -> None:
    writer = world.writers[B]
    writer.handle(Expect(WantId(7), A, 1))
    quiet = [writer.turn() for _ in range(10)][-1]

    def working() -> float:
        world.cpu += 1e-3
        return world.cpu

    writer._cpu_clock = working

    assert writer.turn() < quiet
