# SPDX-License-Identifier: Apache-2.0
"""One want from the question to the end, seen from both engines."""

from tandem_connector.contract.messages import Purpose, Want
from tandem_connector.exchange.commands import ExpectWant, ForgetWant, LoadEnded, Send
from tandem_connector.exchange.types import EndReason, RequestId
from tests.exchange.builders import PEER, Engine, indices, names


def test_a_want_is_asked_written_and_done() -> None:
    decode, prefill = Engine().with_peer(), Engine().with_peer()
    sources = prefill.pool.cached(*names(0, 3))

    want = decode.wants(names(0, 3))
    expect, send = decode.commands()
    assert isinstance(expect, ExpectWant)
    assert isinstance(send, Send)
    assert isinstance(send.message, Want)
    prefill.hears(send.message)
    (write,) = prefill.writes()
    assert (write.want, write.sources, write.destinations, write.after) == (want, sources, expect.blocks, None)
    prefill.wrote(write)
    decode.received(want, *write.indices)

    ended, forget = decode.commands()
    assert isinstance(ended, LoadEnded)
    assert (ended.request, ended.want, ended.peer, ended.purpose) == (RequestId("request"), want, PEER, Purpose.FORWARD)
    assert (ended.good, ended.bad, ended.reason) == (indices(0, 1, 2), (), EndReason.COMPLETE)
    assert forget == ForgetWant(want)
    assert decode.pool.free == 97
    assert prefill.pool.free == 100
