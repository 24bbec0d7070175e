# SPDX-License-Identifier: Apache-2.0
from xml.etree import ElementTree as ET

from rich.console import Console

from tandem_connector.contract.types import Role
from tandem_operator.kubectl.terminal.topology import topology_table
from tandem_operator.kubectl.views.topology import topology_view
from tandem_operator.kubectl.views.topology_svg import topology_svg
from tests.builders import a_node, a_ready_pod
from tests.kubectl.builders import seen, two_of_each

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


def test_names_do_not_break_out_of_the_drawing() -> None:
    view = topology_view(two_of_each()).model_copy(update={"name": '<script>"&'})
    assert "<script>" not in topology_svg(view)
    ET.fromstring(topology_svg(view))


def test_a_resource_without_engines_is_drawn_too() -> None:
    ET.fromstring(topology_svg(topology_view(seen())))
