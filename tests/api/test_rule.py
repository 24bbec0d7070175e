# SPDX-License-Identifier: Apache-2.0
import pytest

from tandem_operator.api.arguments import OWNED_ENGINE_ARGUMENTS, OWNED_FRONT_DOOR_ARGUMENTS
from tandem_operator.api.rule import Rule, Verdict


def test_a_rule_without_values_has_a_fixed_message() -> None:
    rule = Rule(holds="self.a > 0", message="must be above 0", at=".a", verdict=Verdict.INVALID)

    assert rule.as_schema() == {
        "rule": "self.a > 0",
        "message": "must be above 0",
        "reason": "FieldValueInvalid",
        "fieldPath": ".a",
    }


def test_a_rule_with_values_computes_its_message_and_keeps_a_fixed_one() -> None:
    rule = Rule(holds="self.a < b", message="{a} is over 90% of {b}", values={"b": "self.b", "a": "self.a"})

    assert rule.as_schema() == {
        "rule": "self.a < b",
        "message": "<a> is over 90% of <b>",
        "messageExpression": '"%s is over 90%% of %s".format([self.a, self.b])',
        "reason": "FieldValueForbidden",
    }


@pytest.mark.parametrize("owned", [OWNED_ENGINE_ARGUMENTS, OWNED_FRONT_DOOR_ARGUMENTS])
def test_owned_arguments_are_in_order_so_that_none_is_repeated(owned: dict[str, str]) -> None:
    assert list(owned) == sorted(owned)
