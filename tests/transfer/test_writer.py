# SPDX-License-Identifier: Apache-2.0
"""The writer's thread: commands in, reports out, and its end."""

import threading
from collections.abc import Iterator

import pytest

from tandem_connector.exchange.types import EngineId, Index, JobId, StepId, WantId
from tandem_connector.vllm.reports import JobEnded, Outcome, Received, Report
from tandem_connector.vllm.transport import TransferState, TransportError
from tandem_connector.vllm.writer import Writer, WriterError, agent_name
from tests.transfer.builders import A, B, a_write
from tests.transfer.in_memory import InMemoryTransport, Network, Transfer

PATIENCE = 20.0


class SelfDelivering(InMemoryTransport):
    """Delivers whenever someone polls, as UCX does."""

    def notifications(self) -> list[tuple[str, bytes]]:
        self.network.deliver()
        return super().notifications()


class Engine:
    """A writer, and its reports as they come."""

    def __init__(self, network: Network, engine: EngineId) -> None:
        self.transport = SelfDelivering(network, agent_name(engine, 0))
        self.thread: threading.Thread | None = None
        self._news = threading.Event()
        self.writer = Writer(self._open, rank=0, on_reports=lambda _: self._news.set())

    def _open(self) -> InMemoryTransport:
        self.thread = threading.current_thread()
        return self.transport

    def next_report(self) -> Report:
        while not (reports := self.writer.reports()):
            assert self._news.wait(PATIENCE)
            self._news.clear()
        (report,) = reports
        return report


@pytest.fixture
def engines() -> Iterator[tuple[Engine, Engine]]:
    network = Network()
    both = Engine(network, A), Engine(network, B)
    yield both
    for engine in both:
        engine.writer.close()


def test_a_job_given_on_one_thread_is_written_on_another_and_both_sides_are_told(
    engines: tuple[Engine, Engine],
) -> None:
    source, target = engines
    target.writer.expect(WantId(7), A, 1)
    source.writer.add_peer(B, target.writer.memory, 16)
    source.writer.submit([a_write(1, want=7, after=3)])
    source.writer.step_ran(StepId(3))

    assert source.next_report() == JobEnded(JobId(1), (Index(0),), Outcome.WRITTEN)
    assert target.next_report() == Received(WantId(7), (Index(0),))
    assert source.writer.counts.blocks == target.writer.counts.received_blocks == 1
    assert source.thread is not threading.current_thread()


def test_closing_ends_the_thread_and_keeps_the_last_reports(engines: tuple[Engine, Engine]) -> None:
    source, _ = engines
    source.writer.submit([a_write(1, after=3)])

    assert source.writer.close()

    assert source.thread is not None
    assert not source.thread.is_alive()
    assert source.transport.closed
    assert source.next_report() == JobEnded(JobId(1), (), Outcome.NOT_POSTED, "the writer shuts down")


def test_closing_twice_is_closing_once(engines: tuple[Engine, Engine]) -> None:
    source, _ = engines

    assert source.writer.close()
    assert source.writer.close()


def test_a_transport_that_cannot_be_opened_is_the_callers_error() -> None:
    def fail() -> InMemoryTransport:
        raise TransportError("NIXL has none of the backends EFA")

    with pytest.raises(TransportError, match="none of the backends EFA"):
        Writer(fail, rank=0)


def test_a_writer_that_failed_says_so_to_who_asks_for_its_reports() -> None:
    failed = threading.Event()

    class Failing(InMemoryTransport):
        def state(self, transfer: Transfer) -> TransferState:
            raise RuntimeError("the device is lost")

    network = Network()

    def open_failing() -> InMemoryTransport:
        return Failing(network, "a/0")

    writer = Writer(open_failing, rank=0, on_reports=lambda _: failed.set())
    other = InMemoryTransport(network, "b/0")
    writer.add_peer(B, other.memory(), 16)
    writer.submit([a_write(1)])

    assert failed.wait(PATIENCE)
    with pytest.raises(WriterError, match=r"rank 0 failed: RuntimeError\('the device is lost'\)"):
        writer.reports()
    assert writer.close()
