# SPDX-License-Identifier: Apache-2.0
"""Which tests can share a machine, and which a process."""

import ast
from pathlib import Path

import pytest

from e2e.testrun.parts import BY_THEMSELVES, Part, group_of, part_of, place_of

ROOT = Path(__file__).parents[2]
SUITE = ROOT / "e2e" / "suite"
SHARED = ("e2e/suite/test_crd_rules.py::test_a", "e2e/suite/test_operator_on_apiserver.py::test_b[x::y]")
OWN = "e2e/suite/test_chaos_on_apiserver.py::test_c"
FAST = "tests/plan/test_resolve.py::test_d"


@pytest.mark.parametrize(
    ("node_id", "part"),
    [
        ("e2e/suite/cluster/test_node.py", Part.ALONE),
        ("e2e/suite/exchange/three/test_a.py", Part.ALONE),
        ("e2e/suite/engines/test_a_scaling.py::test_x", Part.ALONE),
        ("e2e/suite/test_operator_on_apiserver.py", Part.SIDE_BY_SIDE),
        ("e2e/suite/test_ui_page.py::test_x[a/b]", Part.SIDE_BY_SIDE),
        ("tests/plan/test_resolve.py", Part.SIDE_BY_SIDE),
        ("tests/test_cache.py", Part.SIDE_BY_SIDE),
    ],
)
def test_what_is_in_a_folder_of_the_suite_runs_alone_and_all_else_side_by_side(node_id: str, part: Part) -> None:
    assert part_of(node_id) is part


def test_tests_of_the_sessions_control_plane_are_one_group_and_those_of_another_file_a_group_each() -> None:
    assert len({group_of(each) for each in SHARED}) == 1
    assert len({group_of(each) for each in (SHARED[0], OWN, FAST, "tests/plan/test_rollout.py::test_e")}) == 4
    assert group_of(FAST) == group_of("tests/plan/test_resolve.py::test_f[a::b]")


def test_the_control_planes_come_before_what_fills_the_rest_and_the_shared_one_first() -> None:
    assert sorted((FAST, OWN, *SHARED), key=place_of) == [*SHARED, OWN, FAST]


@pytest.mark.parametrize("file", sorted(SUITE.glob("test_*.py")), ids=lambda path: path.name)
def test_a_file_is_said_to_be_by_itself_exactly_if_it_asks_for_nothing_of_the_sessions_control_plane(
    file: Path,
) -> None:
    of_the_session = _fixtures(SUITE / "conftest.py")
    asked = {
        argument.arg
        for each in _functions(file)
        for argument in each.args.args
        if each.name.startswith("test_") or _is_fixture(each)
    }

    assert of_the_session >= {"control_plane", "kubectl", "replica"}
    assert (file.name in BY_THEMSELVES) == (not asked & of_the_session - _fixtures(file))


def test_every_file_that_is_said_to_be_by_itself_is_there() -> None:
    assert {file.name for file in SUITE.glob("test_*.py")} >= BY_THEMSELVES


def _functions(file: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [
        each for each in ast.parse(file.read_text()).body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def _is_fixture(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any("fixture" in ast.unparse(each) for each in function.decorator_list)


def _fixtures(file: Path) -> set[str]:
    return {each.name for each in _functions(file) if _is_fixture(each)}
