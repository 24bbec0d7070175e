# SPDX-License-Identifier: Apache-2.0
from xml.etree import ElementTree as ET

from rich.console import Console

from tandem_connector.contract.types import Role
from tandem_operator.kubectl.terminal.pair_matrix import pair_matrix
from tandem_operator.kubectl.terminal.topology import topology_table
from tandem_operator.kubectl.views.engine import Pair, PairState
from tandem_operator.kubectl.views.engine_metrics import Reading, reading
from tandem_operator.kubectl.views.flows import Silent
from tandem_operator.kubectl.views.pair_flows import PairFlow
from tandem_operator.kubectl.views.topology import TopologyView, topology_view
from tandem_operator.kubectl.views.topology_svg import topology_svg
from tests.builders import a_node, a_ready_pod
from tests.kubectl.builders import metrics_text, seen, two_of_each

SVG = "{http://www.w3.org/2000/svg}"


def test_engines_that_are_near_each_other_stand_together() -> None:
    nodes = [a_node(name).in_zone("a").under("spine", leaf) for name, leaf in (("n1", "x"), ("n2", "y"), ("n3", "x"))]
    pods = [a_ready_pod(Role.PREFILL, ordinal).on_node(f"n{ordinal + 1}") for ordinal in range(3)]
    view = topology_view(seen(pods=pods, nodes=nodes))
    assert [engine.node for engine in view.of(Role.PREFILL)] == ["n1", "n3", "n2"]


def test_the_table_has_a_mark_for_each_pair() -> None:
    console = Console(width=160)
    with console.capture() as captured:
        console.print(topology_table(topology_view(two_of_each())))
    rows = [line.split() for line in captured.get().splitlines() if line.startswith("qwen-decode")]
    assert rows == [["qwen-decode-0", "ready", "·", "·", "node-a"], ["qwen-decode-1", "ready", "·", "·", "node-a"]]


def test_the_drawing_has_a_box_for_each_engine_and_a_line_for_each_pair() -> None:
    root = ET.fromstring(topology_svg(topology_view(two_of_each())))
    assert len(root.findall(f"{SVG}rect")) == 1 + 4
    assert len(root.findall(f"{SVG}line")) == 4


def with_bytes() -> TopologyView:
    """The first prefill engine has sent 3 MiB to each decode engine and got 1 KiB back from the first; the other isn't read."""
    seen = two_of_each()
    forward = {("qwen-prefill-0", "forward"): 3.0 * 2**20}
    texts: dict[str, str] = {
        "qwen-prefill-0": metrics_text(received_from={("qwen-decode-0", "reverse_push"): 1024}),
        "qwen-decode-0": metrics_text(received_from=forward),
        "qwen-decode-1": metrics_text(received_from=forward, written_to={("qwen-prefill-0", "reverse_fetch"): 0}),
    }
    told: dict[str, Reading | Silent] = {
        pod.uid: reading(texts[pod.name], 0.0) if pod.name in texts else Silent("it is down") for pod in seen.pods
    }
    return topology_view(seen, told)


def test_bytes_of_each_pair_are_two_matrices_with_sums_that_say_what_is_not_known() -> None:
    console = Console(width=160)
    with console.capture() as captured:
        console.print(topology_table(with_bytes()))
    rows = [line.split() for line in captured.get().splitlines()]
    first, second = (
        rows.index(["prefill", "to", "decode", "P0", "P1", "all"]),
        rows.index(["decode", "to", "prefill", "P0", "P1", "all"]),
    )
    assert rows[first + 1 : first + 4] == [
        ["qwen-decode-0", "3M", "?", "3M?"],
        ["qwen-decode-1", "3M", "?", "3M?"],
        ["all", "6M", "0?", "6M?"],
    ]
    assert rows[second + 1 : second + 4] == [
        ["qwen-decode-0", "1K", "?", "1K?"],
        ["qwen-decode-1", "0", "?", "0?"],
        ["all", "1K", "0?", "1K?"],
    ]
    assert rows[-1] == ["not", "read:", "qwen-prefill-1:", "it", "is", "down"]


def test_a_matrix_of_8_and_16_engines_fits_into_100_columns() -> None:
    console = Console(width=100)
    pairs = [
        Pair(prefill=f"m-prefill-{p}", decode=f"m-decode-{d}", state=PairState.SHOWN)
        for p in range(8)
        for d in range(16)
    ]
    flows = [PairFlow(pair=pair, forward=1023.0 * 2**20, reverse=None) for pair in pairs]
    names = [f"m-prefill-{p}" for p in range(8)], [f"m-decode-{d}" for d in range(16)]
    with console.capture() as captured:
        console.print(pair_matrix("prefill to decode", flows, *names, lambda flow: flow.forward))
    rows = captured.get().splitlines()
    assert len(rows) == 1 + 16 + 1
    assert rows[1].split() == ["m-decode-0", *["1023M"] * 8, "7.99G"]


def test_lines_are_the_wider_the_more_went_over_them_and_say_how_much() -> None:
    root = ET.fromstring(topology_svg(with_bytes()))
    told = {title.text: float(line.attrib["stroke-width"]) for line in root.iter(f"{SVG}line") for title in line}
    assert told == {
        "qwen-prefill-0 - qwen-decode-0: open; 3 MiB to decode, 1 KiB to prefill": 6,
        "qwen-prefill-1 - qwen-decode-0: open; ? to decode, ? to prefill": 0.6,
        "qwen-prefill-0 - qwen-decode-1: open; 3 MiB to decode, 0 to prefill": 6,
        "qwen-prefill-1 - qwen-decode-1: open; ? to decode, ? to prefill": 0.6,
    }


def test_without_being_asked_for_there_are_no_bytes() -> None:
    view = topology_view(two_of_each())
    assert view.moved is None
    assert "to decode" not in topology_svg(view)


def test_names_do_not_break_out_of_the_drawing() -> None:
    view = topology_view(two_of_each()).model_copy(update={"name": '<script>"&'})
    assert "<script>" not in topology_svg(view)
    ET.fromstring(topology_svg(view))


def test_a_resource_without_engines_is_drawn_too() -> None:
    ET.fromstring(topology_svg(topology_view(seen())))
