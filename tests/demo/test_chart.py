# SPDX-License-Identifier: Apache-2.0
"""The chart says what was counted."""

import itertools
import xml.etree.ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from e2e.demo.chart import chart_of
from e2e.demo.held import HeldConversation
from tests.demo.builders import a_turn, held, held_by_one

SVG = "{http://www.w3.org/2000/svg}"
COMPARED = (
    held("Push", a_turn(prefill=714, decode=10), a_turn(prefill=107, decode=21)),
    held_by_one("plain <vLLM> & more", a_turn(decode=714), a_turn(decode=117)),
)
counts = st.integers(0, 100_000)
conversations = st.lists(
    st.tuples(st.booleans(), st.tuples(counts, counts), st.tuples(counts, counts)), min_size=1, max_size=5
).map(
    lambda drawn: [
        HeldConversation(
            f"way {number}", tuple(a_turn(prefill=0 if one else p, decode=d) for p, d in turns), one_engine=one
        )
        for number, (one, *turns) in enumerate(drawn)
    ]
)


def bars(chart: ET.Element) -> dict[str, float]:
    """The heights of all bars, by what they say of themselves."""
    return {
        title.text or "": float(rectangle.attrib["height"])
        for rectangle in chart.iter(f"{SVG}rect")
        if (title := rectangle.find(f"{SVG}title")) is not None
    }


def texts(chart: ET.Element) -> list[str]:
    return [text.text or "" for text in chart.iter(f"{SVG}text")]


def test_each_bar_is_as_high_as_the_tokens_that_it_names() -> None:
    heights = bars(ET.fromstring(chart_of(COMPARED)))

    assert heights.keys() == {
        "Push, turn 1: 714 by prefill (P)",
        "Push, turn 1: 10 by decode (D)",
        "Push, turn 2: 107 by prefill (P)",
        "Push, turn 2: 21 by decode (D)",
        "plain <vLLM> & more, turn 1: 714 by the one engine",
        "plain <vLLM> & more, turn 2: 117 by the one engine",
    }
    unit = heights["Push, turn 1: 714 by prefill (P)"] / 714
    for title, height in heights.items():
        assert abs(height / unit - int(title.rpartition(": ")[2].split()[0])) < 0.01


def test_sums_ways_legend_and_title_are_written_out() -> None:
    written = texts(ET.fromstring(chart_of(COMPARED)))

    for text in (
        *("Prompt tokens computed in each turn", "by prefill (P)", "by decode (D)", "by the one engine"),
        *("Push", "plain <vLLM> & more", "724", "128", "714", "117", "turn 1", "turn 2"),
    ):
        assert text in written


def test_a_legend_names_only_what_is_there() -> None:
    assert "by the one engine" not in texts(ET.fromstring(chart_of(COMPARED[:1])))


def test_what_a_screen_reader_is_told_has_all_sums() -> None:
    described = ET.fromstring(chart_of(COMPARED)).find(f"{SVG}desc")

    assert described is not None
    assert described.text == "Push: 724, 128; plain <vLLM> & more: 714, 117."


@given(conversations)
def test_all_bars_lie_between_axis_and_top_and_beside_each_other(compared: list[HeldConversation]) -> None:
    chart = ET.fromstring(chart_of(compared))
    axis = max(float(line.attrib["y1"]) for line in chart.iter(f"{SVG}line"))
    top = min(float(line.attrib["y1"]) for line in chart.iter(f"{SVG}line"))
    places: dict[float, list[tuple[float, float]]] = {}
    for rectangle in chart.iter(f"{SVG}rect"):
        if rectangle.find(f"{SVG}title") is not None:
            x, y, height = (float(rectangle.attrib[name]) for name in ("x", "y", "height"))
            places.setdefault(x, []).append((y, y + height))

    assert len(places) == sum(len(conversation.rows) for conversation in compared)
    for parts in places.values():
        parts.sort()
        assert parts[0][0] >= top
        assert abs(parts[-1][1] - axis) < 0.01
        assert all(abs(below[0] - above[1]) < 0.01 for above, below in itertools.pairwise(parts))
    edges = sorted(places)
    assert all(right - left >= 44 for left, right in itertools.pairwise(edges))
    width = float(chart.attrib["width"])
    assert edges[0] >= 0
    assert edges[-1] + 44 <= width
