# SPDX-License-Identifier: Apache-2.0
"""A drawing of the topology: prefill engines on the left, decode engines on the right, a line for each pair."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from xml.sax.saxutils import escape

from tandem_connector.contract.types import Role
from tandem_operator.kubectl.views.amounts import bytes_words
from tandem_operator.kubectl.views.engine import Engine, PairState, State
from tandem_operator.kubectl.views.topology import TopologyView

_WIDTH: Final = 920
_BOX: Final = 300
_ROW: Final = 56
_TOP: Final = 72
_LEFT: Final = 20
_FILL: Final[Mapping[State, str]] = {
    State.PENDING: "#fff4d6",
    State.STARTING: "#fff4d6",
    State.FAILING: "#ffd9d6",
    State.READY: "#dcf5e3",
    State.QUARANTINED: "#ffd9d6",
    State.DRAINING: "#dbe9ff",
}
_LINE: Final[Mapping[PairState, str]] = {
    PairState.SHOWN: "#1a7f37",
    PairState.FAILED: "#cf222e",
    PairState.OPEN: "#6e7781",
    PairState.SETTLING: "#bf8700",
}


def topology_svg(view: TopologyView) -> str:
    """An SVG document, the same for the same view."""
    rows = max(1, *(len(view.of(role)) for role in Role))
    height = _TOP + rows * _ROW + 40
    places = {
        engine.pod: (_LEFT if role is Role.PREFILL else _WIDTH - _LEFT - _BOX, _TOP + row * _ROW)
        for role in Role
        for row, engine in enumerate(view.of(role))
    }
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" font-size="13">',
        f"<title>{escape(view.namespace)}/{escape(view.name)}</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        *_titles(view),
        *_lines(view, places),
        *(_box(engine, *places[engine.pod]) for engine in view.engines),
        *_key(height, widths=view.moved is not None),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _titles(view: TopologyView) -> Iterator[str]:
    yield f'<text x="{_LEFT}" y="28" font-size="17" font-weight="bold">{escape(view.namespace)}/{escape(view.name)}</text>'
    for role, x in ((Role.PREFILL, _LEFT), (Role.DECODE, _WIDTH - _LEFT - _BOX)):
        yield f'<text x="{x}" y="58" fill="#57606a">{role}: {len(view.of(role))}</text>'


def _lines(view: TopologyView, places: Mapping[str, tuple[int, int]]) -> Iterator[str]:
    moved = {(flow.pair.prefill, flow.pair.decode): flow for flow in view.moved or ()}
    most = max((flow.amount for flow in moved.values()), default=0)
    for pair in view.pairs:
        flow = moved.get((pair.prefill, pair.decode))
        words = f"{pair.prefill} - {pair.decode}: {pair.state.value}"
        width = 1.6
        if flow is not None:
            words += f"; {_amount(flow.forward)} to decode, {_amount(flow.reverse)} to prefill"
            width = 0.6 + 5.4 * flow.amount / most if most else 0.6
        (left, above), (right, below) = places[pair.prefill], places[pair.decode]
        dashes = "" if pair.state in (PairState.SHOWN, PairState.FAILED) else ' stroke-dasharray="5 4"'
        yield (
            f'<line x1="{left + _BOX}" y1="{above + 20}" x2="{right}" y2="{below + 20}" stroke="{_LINE[pair.state]}"'
            f' stroke-width="{width:.3g}"{dashes}><title>{escape(words)}</title></line>'
        )


def _amount(bytes_: float | None) -> str:
    return "?" if bytes_ is None else bytes_words(bytes_)


def _box(engine: Engine, x: int, y: int) -> str:
    where = " · ".join(filter(None, (engine.state.value, engine.node, engine.zone, *engine.layers[-1:])))
    return (
        f'<rect x="{x}" y="{y}" width="{_BOX}" height="40" rx="6" fill="{_FILL[engine.state]}" stroke="#57606a"/>'
        f'<text x="{x + 8}" y="{y + 16}">{escape(_short(engine.pod, 40))}</text>'
        f'<text x="{x + 8}" y="{y + 32}" font-size="11" fill="#57606a">{escape(_short(where, 52))}</text>'
    )


def _key(height: int, *, widths: bool) -> Sequence[str]:
    words = {
        PairState.SHOWN: "KV was seen to move",
        PairState.FAILED: "it fails",
        PairState.OPEN: "nothing shown yet",
        PairState.SETTLING: "one side knows",
    }
    told = [f'<text x="{_LEFT + 820}" y="{height - 14}" fill="#57606a">wide: bytes</text>'] if widths else []
    return told + [
        f'<text x="{_LEFT + number * 200}" y="{height - 14}" fill="{_LINE[state]}">— {text}</text>'
        for number, (state, text) in enumerate(words.items())
    ]


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
