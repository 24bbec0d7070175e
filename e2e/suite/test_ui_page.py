# SPDX-License-Identifier: Apache-2.0
"""The page of `kubectl tandem ui` in a real browser, with engines' metrics that are written here."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from e2e.browser import Tab, chromium, opened
from tandem_connector.contract.types import Role
from tandem_operator.api.status import Condition, ConditionStatus, ConditionType, Status
from tandem_operator.kube.errors import Refused
from tandem_operator.kubectl.ui.server import serving
from tandem_operator.kubectl.views.engine_metrics import reading
from tandem_operator.kubectl.views.flows import FlowsView, Silent, flows
from tandem_operator.kubectl.views.seen import Seen
from tests.builders import a_ready_pod, a_resource, observed, settled
from tests.kubectl.builders import metrics_text

pytestmark = pytest.mark.timeout(300)  # The first test may have to install the browser.

HOSTILE = "</title><script>document.title='broken in'</script><img src=x onerror=document.title='broken in'>"


@pytest.fixture(scope="module")
def browser() -> str:
    found = chromium()
    if found is None:
        pytest.skip("Chromium is not here, and only root of a Debian may install it")
    return found


@asynccontextmanager
async def page(browser: str, current: Callable[[], Awaitable[FlowsView]], profile: Path) -> AsyncIterator[Tab]:
    """The page, once it has looked for the first time."""
    async with serving(current, 0) as url, opened(browser, url, profile) as tab:
        await tab.until("document.querySelector('#engines tr') !== null")
        yield tab


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
            uids["qwen-prefill-0"]: metrics_text(
                tokens={"computed": 300 * look},
                written=sent,
                received=back,
                received_from={("qwen-decode-0", "reverse_push"): back["reverse_push"]},
            ),
            uids["qwen-decode-0"]: metrics_text(
                tokens={"forward": 240 * look, "cached": 60 * look},
                received=sent,
                written=back,
                received_from={("qwen-prefill-0", "forward"): sent["forward"]},
                wants_open=3,
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
    async with page(browser, looks(), tmp_path) as tab:
        await tab.until("document.querySelector('path.forward') !== null")  # With the second look.
        assert await tab.value("document.title") == "models/qwen · Tandem"
        assert await tab.value("document.querySelectorAll('img, body script').length") == 1, "its own script"
        assert HOSTILE in await tab.text("#reason"), "words are shown as they are"

        drawing = await tab.text("#drawing")
        assert "qwen-prefill-0 — ready" in drawing
        assert "150 tokens/s, in 244 KiB/s, out 977 KiB/s; 0 wants" in drawing
        assert "qwen-decode-0 hands over to qwen-decode-1 when it ends" in drawing
        assert await tab.value("[...document.querySelectorAll('path.forward, path.reverse')].length") == 2
        engines = await tab.text("#engines")
        assert "from prefill 120/s" in engines
        assert "3 open" in engines
        assert f"not read: {HOSTILE}" in engines
        assert "977 KiB/s" in await tab.text("#pairs")
        assert "1 prefill and 2 decode engines, 2 pairs" in await tab.text("#summary")
        assert await tab.text("#problem") == ""
        assert tab.complaints == [], "its own policy lets the page do all that it does"
    assert [process for process in processes() if str(tmp_path) in process] == [], "no browser is left behind"


def a_mesh() -> FlowsView:
    """8 and 16 engines, of which decode engine 9 gets the more the higher the prefill engine's number, and others hardly anything."""
    pods = [
        a_ready_pod(role, ordinal)
        for role, engines in ((Role.PREFILL, 8), (Role.DECODE, 16))
        for ordinal in range(engines)
    ]
    seen = Seen(settled(observed(a_resource().with_prefill(8).with_decode(16), pods)))

    def text(pod: str, look: int) -> str:
        busy = pod == "qwen-decode-9"
        return metrics_text(
            received_from={
                (f"qwen-prefill-{number}", "forward"): look * (2e6 * number if busy else 1000) for number in range(8)
            }
        )

    before, now = (
        {pod.uid: reading(text(pod.name, look), 2.0 * look) for pod in seen.pods if pod.role is Role.DECODE}
        for look in (0, 1)
    )
    return flows(seen, before, now)


async def test_of_a_mesh_it_shows_the_pairs_that_most_goes_over_and_those_of_the_engine_that_is_chosen(
    browser: str, tmp_path: Path
) -> None:
    count, view = 0, a_mesh()
    assert len(view.pairs) > 24

    async def current() -> FlowsView:
        nonlocal count
        count += 1
        return view

    own = [flow for flow in view.pairs if flow.pair.decode == "qwen-decode-9"]
    async with page(browser, current, tmp_path) as tab:
        rows = "[...document.querySelectorAll('#pairs tr')].map(row => row.textContent)"
        listed = await tab.value(rows)
        most = max(own, key=lambda flow: flow.forward or 0)
        assert listed[0].startswith(f"{most.pair.prefill}qwen-decode-9")
        assert len(listed) == 24 + 1
        assert f"and {len(view.pairs) - 24} more pairs" in listed[-1]
        widths = await tab.value(
            "[...document.querySelectorAll('path.forward')].map(path => parseFloat(path.style.strokeWidth))"
        )
        assert max(widths) > 5 * sorted(widths)[len(widths) // 2]
        engines = await tab.value("[...document.querySelectorAll('#engines th')].map(name => name.textContent)")
        assert engines[-7:-4] == ["qwen-decode-9", "qwen-decode-10", "qwen-decode-11"]

        await tab.value(
            "(of => { of.value = 'qwen-decode-9'; of.dispatchEvent(new Event('change')); })(document.getElementById('of'))"
        )
        assert len(await tab.value(rows)) == len(own)
        before = count
        while count < before + 2:  # It stays chosen when the page looks again.
            await tab.value("new Promise(done => setTimeout(done, 100))")
        drawn = "document.querySelectorAll('#drawing > path:not(.aside)').length"
        assert await tab.value(drawn) == 2 * len(own)
        assert "more pairs" not in await tab.text("#pairs")
        # A click on its box, or on another's, does the same.
        await tab.value("document.querySelector('.box-of:last-child').dispatchEvent(new Event('click'))")
        assert await tab.value("document.getElementById('of').value") == "qwen-decode-15"
        await tab.value("document.querySelector('.box-of:last-child').dispatchEvent(new Event('click'))")
        assert await tab.value("document.getElementById('of').value") == ""
        assert tab.complaints == []


async def test_a_look_that_fails_after_others_leaves_what_was_seen_and_says_so(browser: str, tmp_path: Path) -> None:
    good, count = looks(), 0

    async def current() -> FlowsView:
        nonlocal count
        count += 1
        if count > 1:
            raise Refused(HOSTILE)
        return await good()

    async with page(browser, current, tmp_path) as tab:
        await tab.until("document.body.className === 'stale'")
        assert await tab.text("#problem") == HOSTILE
        assert "qwen-prefill-0" in await tab.text("#engines")
        assert await tab.value("document.querySelector('img')") is None


async def test_it_can_be_stopped_by_the_keyboard_and_is_named_for_those_who_do_not_see_it(
    browser: str, tmp_path: Path
) -> None:
    count = 0
    look = looks()

    async def current() -> FlowsView:
        nonlocal count
        count += 1
        return await look()

    async with page(browser, current, tmp_path) as tab:
        await tab.press("Tab")
        assert await tab.value("document.activeElement.id") == "pause"
        assert await tab.value("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        await tab.press("Enter")
        assert await tab.value("document.activeElement.getAttribute('aria-pressed')") == "true"
        before = count
        # In this time it would look again.
        await tab.value("new Promise(done => setTimeout(done, EVERY + 500))")
        assert count == before
        await tab.until("document.body.className === 'paused'")

        nodes = (await tab.ask("Accessibility.getFullAXTree"))["nodes"]
        named = {(node["role"]["value"], node.get("name", {}).get("value")) for node in nodes if "role" in node}
        assert {("table", "Engines"), ("table", "Pairs"), ("region", "Engines"), ("region", "Pairs")} <= named
        assert ("columnheader", "KV received") in named
        assert ("combobox", "Flows of") in named
        assert ("rowheader", "qwen-decode-0") in named
        assert any(role == "image" and "2 decode engines, 2 pairs" in (name or "") for role, name in named)


async def test_it_follows_the_readers_colours_and_wish_for_rest(browser: str, tmp_path: Path) -> None:
    async with page(browser, looks(), tmp_path) as tab:
        await tab.until("document.querySelector('path.forward') !== null")
        moves = "getComputedStyle(document.querySelector('path.forward')).animationName"
        assert await tab.value(moves) == "flow"
        grounds = set()
        for scheme in ("light", "dark"):
            features = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"}
            wanted = [{"name": name, "value": value} for name, value in features.items()]
            await tab.ask("Emulation.setEmulatedMedia", features=wanted)
            assert await tab.value(moves) == "none"
            ground = await tab.value("getComputedStyle(document.body).backgroundColor")
            grounds.add(ground)
            for style in ("good", "bad", "open", "ending", "dim"):
                words = (
                    f"document.body.appendChild(Object.assign(document.createElement('p'), {{className: '{style}'}}))"
                )
                ink = await tab.value(f"getComputedStyle({words}).color")
                assert contrast(ink, ground) >= 4.5, "what WCAG 2.2 asks of text (1.4.3)"
        assert len(grounds) == 2


def processes() -> Iterator[str]:
    """Command lines of all that run."""
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            yield entry.read_text(errors="replace")


def contrast(one: str, other: str) -> float:
    """As WCAG 2.2 defines it, of two colours as `rgb(1, 2, 3)`."""

    def luminance(colour: str) -> float:
        parts = [int(each) / 255 for each in re.findall(r"[0-9]+", colour)]
        linear = [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)
