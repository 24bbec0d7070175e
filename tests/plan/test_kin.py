# SPDX-License-Identifier: Apache-2.0
"""Which engines can use each other's blocks, as their labels tell."""

import pytest

from tandem_connector.contract.types import Role
from tandem_operator.api.names import KIN_LABEL
from tests.builders import a_resource
from tests.builders.resources import ResourceBuilder
from tests.plan.made import template


def kin(resource: ResourceBuilder) -> str | None:
    found: str | None = template(resource, Role.DECODE)["metadata"]["labels"].get(KIN_LABEL)
    return found


@pytest.mark.parametrize(
    "arguments",
    [("--max-num-seqs=8",), ("--max_num_seqs", "8"), ("--enable-auto-tool-choice", "--tool-call-parser", "hermes")],
)
def test_arguments_that_change_nothing_of_the_kv_change_no_kin(arguments: tuple[str, ...]) -> None:
    assert kin(a_resource().with_arguments(*arguments)) == kin(a_resource())


@pytest.mark.parametrize("arguments", [("--dtype=bfloat16",), ("--max-num-seqs", "8", "--quantization", "fp8")])
def test_any_other_argument_does(arguments: tuple[str, ...]) -> None:
    assert kin(a_resource().with_arguments(*arguments)) != kin(a_resource())


def test_the_other_roles_arguments_are_none_of_its_business() -> None:
    assert kin(a_resource().with_spec("prefill", "args", value=["--dtype=half"])) == kin(a_resource())


def test_engines_that_do_not_exchange_have_no_kin() -> None:
    assert kin(a_resource().pulling()) is None
