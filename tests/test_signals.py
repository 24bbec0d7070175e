# SPDX-License-Identifier: Apache-2.0
"""Long runs that are told to end."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

RUN = """
import asyncio, signal
signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a shell does that starts it in the background
from e2e.signals import end_in_order_when_told

async def work():
    print("works", flush=True)
    try:
        await asyncio.sleep(60)
    finally:
        print("tidies up")

end_in_order_when_told()
try:
    asyncio.run(work())
except KeyboardInterrupt:
    print("was stopped")
"""


@pytest.mark.parametrize("told", [signal.SIGINT, signal.SIGTERM])
def test_a_run_in_the_background_tidies_up_when_it_is_told_to_end(told: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", RUN], cwd=Path(__file__).parents[1], stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "works\n"
        run.send_signal(told)
        assert run.stdout.read() == "tidies up\nwas stopped\n"
