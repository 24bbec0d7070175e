# SPDX-License-Identifier: Apache-2.0
"""The page of `kubectl tandem ui` in a real browser, with engines' metrics that are written here."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from e2e.browser import Shown, chromium, shown
from tandem_connector.contract.types import Role
from tandem_operator.api.status import Condition, ConditionStatus, ConditionType, Status
from tandem_operator.kube.errors import Refused
from tandem_operator.kubectl.ui.server import serving
from tandem_operator.kubectl.views.engine_metrics import reading
from tandem_operator.kubectl.views.flows import FlowsView, Silent, flows
from tandem_operator.kubectl.views.seen import Seen
from tests.builders import a_ready_pod, a_resource, observed, settled
from tests.kubectl.builders import metrics_text

HOSTILE = "</title><script>document.title='broken in'</script><img src=x onerror=document.title='broken in'>"


@pytest.fixture(scope="module")
def browser() -> str:
    found = chromium()
    if found is None:
        pytest.skip("Chromium is not here, and only root of a Debian may install it")
    return found


async def open_(browser: str, current: Callable[[], Awaitable[FlowsView]], profile: Path) -> Shown:
    async with serving(current, 0) as url:
        return await asyncio.to_thread(shown, browser, url, profile)


def text_of(dom: str, id_: str) -> str:
    found = re.search(rf'<(\w+) id="{id_}"[^>]*>(.*?)</\1>', dom, re.DOTALL)
    assert found, f"no {id_} in {dom}"
    return re.sub(r"<[^>]*>", " ", found[2])


def looks() -> Callable[[], Awaitable[FlowsView]]:
    """Of one prefill and two decode engines, of which the second isn't read; each look two seconds after the one before."""
    pods = [a_ready_pod(Role.PREFILL), a_ready_pod(Role.DECODE, 0), a_ready_pod(Role.DECODE, 1)]
    told = settled(observed(a_resource().with_prefill(1).with_decode(2), pods))
    ready = Condition(
        type=ConditionType.READY,
        status=ConditionStatus.TRUE,
        observed_generation=1,
        last_transition_time="2026-01-01T00:00:00Z",
        reason="EnginesReady",
        message=HOSTILE,
    )
    status = Status(observed_generation=1, conditions=(ready,))
    seen = Seen(replace(told, resource=told.resource.model_copy(update={"status": status})))
    uids = {pod.name: pod.uid for pod in seen.pods}
    count = 0

    def at(look: int) -> dict[str, str]:
        sent, back = {"forward": 2e6 * look}, {"reverse_push": 5e5 * look}
        return {
            uids["qwen-prefill-0"]: metrics_text(tokens={"computed": 300 * look}, written=sent, received=back),
            uids["qwen-decode-0"]: metrics_text(
                tokens={"forward": 240 * look, "cached": 60 * look}, received=sent, written=back, wants_open=3
            ),
        }

    async def current() -> FlowsView:
        nonlocal count
        count += 1
        before, now = (
            {uid: reading(text, 2.0 * look) for uid, text in at(look).items()} for look in (count - 1, count)
        )
        return flows(seen, before if count > 1 else {}, {**now, uids["qwen-decode-1"]: Silent(HOSTILE)})

    return current


async def test_it_draws_engines_pairs_and_flows_and_renders_nothing_that_it_is_told(
    browser: str, tmp_path: Path
) -> None:
    page = await open_(browser, looks(), tmp_path)
    assert "<title>models/qwen · Tandem</title>" in page.dom, "its title is not what the cluster's words make of it"
    assert "<img" not in page.dom
    assert page.dom.count("<script") == 1
    assert "&lt;img src=x" in page.dom, "they are shown as they are"

    drawing = text_of(page.dom, "drawing")
    assert "qwen-prefill-0 — ready" in drawing
    assert "150 tokens/s, in 244 KiB/s, out 977 KiB/s; 0 wants" in drawing
    assert page.dom.count('<path class="forward"') == page.dom.count('<path class="reverse"') == 1
    engines = text_of(page.dom, "engines")
    assert "from prefill 120/s" in engines
    assert "3 open" in engines
    assert "not read: " in engines
    pairs = text_of(page.dom, "pairs")
    assert "977 KiB/s" in pairs
    assert "1 prefill and 2 decode engines, 2 pairs" in text_of(page.dom, "summary")
    assert text_of(page.dom, "problem") == ""
    complaints = [line for line in page.console.splitlines() if "CONSOLE" in line]
    assert complaints == [], "its own policy lets the page do all that it does"


async def test_a_look_that_fails_after_others_leaves_what_was_seen_and_says_so(browser: str, tmp_path: Path) -> None:
    good, count = looks(), 0

    async def current() -> FlowsView:
        nonlocal count
        count += 1
        if count > 1:
            raise Refused(HOSTILE)
        return await good()

    page = await open_(browser, current, tmp_path)
    assert "&lt;img src=x" in text_of(page.dom, "problem")
    assert '<body class="stale">' in page.dom
    assert "qwen-prefill-0" in text_of(page.dom, "engines")
    assert "<img" not in page.dom
