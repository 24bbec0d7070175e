# SPDX-License-Identifier: Apache-2.0
"""Expressions as Grafana sends them."""

import pytest

from e2e.prometheus.grafana import substituted


@pytest.mark.parametrize(
    ("namespaces", "sent"),
    [
        ([], 'up{namespace=~".*"}'),
        (["models"], 'up{namespace=~"models"}'),
        (["models", "tests"], 'up{namespace=~"(models|tests)"}'),
        (["a.b"], r'up{namespace=~"a\\.b"}'),
    ],
)
def test_what_was_chosen_is_a_pattern(namespaces: list[str], sent: str) -> None:
    assert substituted('up{namespace=~"$namespace"}', {"namespace": namespaces}, step=15, scrape=15) == sent


@pytest.mark.parametrize(("step", "window"), [(15, "60s"), (60, "75s")])
def test_rates_are_over_four_looks_or_a_point_and_a_look(step: int, window: str) -> None:
    assert substituted("rate(a[$__rate_interval])", {}, step=step, scrape=15) == f"rate(a[{window}])"


def test_a_variable_that_there_is_not_is_noticed() -> None:
    with pytest.raises(ValueError, match="there is no variable role"):
        substituted('up{role=~"$role"}', {"namespace": []}, step=15, scrape=15)
