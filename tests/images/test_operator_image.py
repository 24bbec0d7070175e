# SPDX-License-Identifier: Apache-2.0
from e2e.images.catalogue import OPERATOR
from e2e.images.wheels import locked_requirements


def test_what_only_the_kubectl_plugin_needs_is_not_in_the_operators_image() -> None:
    assert OPERATOR.wheels is not None
    requirements = locked_requirements(OPERATOR.wheels)
    assert "kopf==" in requirements
    assert "rich==" not in requirements
