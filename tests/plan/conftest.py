# SPDX-License-Identifier: Apache-2.0
"""The option that rewrites golden files."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", default=False, help="rewrite tests/golden from the planner"
    )


@pytest.fixture
def updates_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden", default=False))
