# SPDX-License-Identifier: Apache-2.0
"""The demo's chart: prompt tokens computed per turn, one group of bars for each way to run the model.

An SVG that stands alone. Its background and colours follow the reader's preference for light or dark; the colours are of
Okabe and Ito's palette, which people with any kind of colour vision tell apart, and the parts of a bar also differ in
their place.
"""

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

from e2e.demo.held import HeldConversation

TITLE: Final = "Prompt tokens computed in each turn"
_PREFILL, _DECODE, _ALONE = "prefill", "decode", "alone"
_LEGEND: Final = {_PREFILL: "by prefill (P)", _DECODE: "by decode (D)", _ALONE: "by the one engine"}
_STYLE: Final = """
text { font: 13px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: #24292f }
.title { font-size: 17px; font-weight: 600 }
.group { font-weight: 600 }
.quiet { fill: #57606a }
.paper { fill: #ffffff }
.grid { stroke: #d0d7de }
.prefill { fill: #0072b2 }
.decode { fill: #e69f00 }
.alone { fill: #7a7a7a }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .quiet { fill: #9da7b3 }
  .paper { fill: #0d1117 }
  .grid { stroke: #3d444d }
  .prefill { fill: #56b4e9 }
  .decode { fill: #e69f00 }
  .alone { fill: #b0b0b0 }
}
"""
_BAR, _GAP, _BETWEEN_GROUPS = 44, 8, 40
_LEFT, _TOP, _HEIGHT, _BOTTOM, _RIGHT = 64, 96, 250, 60, 24


@dataclass(frozen=True)
class _Scale:
    """From tokens to places."""

    most: int
    step: int

    @classmethod
    def over(cls, largest: int) -> "_Scale":
        """Ends at the first tick above `largest`; at most six ticks, at round numbers."""
        step = next(
            mantissa * 10**power for power in count() for mantissa in (1, 2, 5) if largest < 6 * mantissa * 10**power
        )
        return cls((largest // step + 1) * step, step)

    def height(self, tokens: int) -> float:
        return tokens * _HEIGHT / self.most

    def y(self, tokens: int) -> float:
        return _TOP + _HEIGHT - self.height(tokens)


def chart_of(conversations: Sequence[HeldConversation]) -> str:
    """The chart's SVG.

    Args:
        conversations: at least one, over the same script.
    """
    scale = _Scale.over(max(row.computed for conversation in conversations for row in conversation.rows))
    turns = len(conversations[0].rows)
    group = turns * (_BAR + _GAP) - _GAP
    width = _LEFT + len(conversations) * (group + _BETWEEN_GROUPS) + _RIGHT
    height = _TOP + _HEIGHT + _BOTTOM
    svg = ET.Element(
        "svg",
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width} {height}",
        width=str(width),
        height=str(height),
        role="img",
    )
    ET.SubElement(svg, "title").text = TITLE
    ET.SubElement(svg, "desc").text = _description(conversations)
    ET.SubElement(svg, "style").text = _STYLE
    _rectangle(svg, "paper", (0, 0), (width, height))
    _text(svg, TITLE, (_LEFT, 32), "title")
    _legend(svg, any(conversation.one_engine for conversation in conversations))
    _grid(svg, scale, width - _RIGHT)
    for number, conversation in enumerate(conversations):
        left = _LEFT + _BETWEEN_GROUPS / 2 + number * (group + _BETWEEN_GROUPS)
        _group(svg, conversation, scale, left)
        _text(svg, conversation.way, (left + group / 2, _TOP + _HEIGHT + 44), "group", "middle")
    return ET.tostring(svg, encoding="unicode") + "\n"


def _description(conversations: Sequence[HeldConversation]) -> str:
    told = (
        f"{conversation.way}: {', '.join(str(row.computed) for row in conversation.rows)}"
        for conversation in conversations
    )
    return f"{'; '.join(told)}."


def _group(svg: ET.Element, conversation: HeldConversation, scale: _Scale, left: float) -> None:
    for number, row in enumerate(conversation.rows, start=1):
        x = left + (number - 1) * (_BAR + _GAP)
        prefill, decode = row.account.prefill.computed, row.account.decode.computed
        parts = ((_ALONE, decode),) if conversation.one_engine else ((_PREFILL, prefill), (_DECODE, decode))
        below = 0
        for kind, tokens in parts:
            bar = _rectangle(svg, kind, (x, scale.y(below + tokens)), (_BAR, scale.height(tokens)))
            ET.SubElement(bar, "title").text = f"{conversation.way}, turn {number}: {tokens} {_LEGEND[kind]}"
            below += tokens
        _text(svg, str(row.computed), (x + _BAR / 2, scale.y(below) - 6), anchor="middle")
        _text(svg, f"turn {number}", (x + _BAR / 2, _TOP + _HEIGHT + 20), "quiet", "middle")


def _legend(svg: ET.Element, with_alone: bool) -> None:
    for place, kind in enumerate((_PREFILL, _DECODE, *((_ALONE,) if with_alone else ()))):
        x = _LEFT + 150 * place
        _rectangle(svg, kind, (x, 50), (13, 13))
        _text(svg, _LEGEND[kind], (x + 20, 61))


def _grid(svg: ET.Element, scale: _Scale, right: float) -> None:
    for tokens in range(0, scale.most + 1, scale.step):
        y = f"{scale.y(tokens):g}"
        ET.SubElement(svg, "line", {"class": "grid", "x1": str(_LEFT), "x2": f"{right:g}", "y1": y, "y2": y})
        _text(svg, str(tokens), (_LEFT - 8, scale.y(tokens) + 4), "quiet", "end")


def _rectangle(svg: ET.Element, kind: str, place: tuple[float, float], size: tuple[float, float]) -> ET.Element:
    places = dict(zip(("x", "y", "width", "height"), place + size, strict=True))
    return ET.SubElement(svg, "rect", {"class": kind} | {name: f"{value:g}" for name, value in places.items()})


def _text(svg: ET.Element, text: str, place: tuple[float, float], kind: str = "", anchor: str = "start") -> None:
    x, y = place
    attributes = {"x": f"{x:g}", "y": f"{y:g}", "text-anchor": anchor} | ({"class": kind} if kind else {})
    ET.SubElement(svg, "text", attributes).text = text
