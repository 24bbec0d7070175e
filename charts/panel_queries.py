# SPDX-License-Identifier: Apache-2.0
"""Expressions of PromQL that several panels have in common, over `$namespace` and `$resource`."""

from typing import Final

from charts.grafana import Query

ENGINES: Final = 'namespace=~"$namespace", tandem_dev_resource=~"$resource"'
DECODE: Final = f'{ENGINES}, tandem_dev_role="decode"'
OF_RESOURCES: Final = 'resource_namespace=~"$namespace", resource_name=~"$resource"'
NAME: Final = "{{resource_namespace}}/{{resource_name}}"
"""Legend of series of `of_resource`."""


def rate_of(metric: str, labels: str, where: str = ENGINES) -> str:
    """What a counter grew by per second."""
    return f"sum by ({labels}) (rate({metric}{{{where}}}[$__rate_interval]))"


def quantiles(metric: str, where: str) -> tuple[Query, ...]:
    """A histogram's median, and what 95 and 99 of 100 are below."""
    return tuple(
        Query(
            f"histogram_quantile({quantile / 100}, sum by (le) (rate({metric}_bucket{{{where}}}[$__rate_interval])))",
            f"p{quantile}",
        )
        for quantile in (50, 95, 99)
    )


def by(metric: str, labels: str, where: str = ENGINES, function: str = "sum") -> str:
    """A gauge of engines, by these labels."""
    return f"{function} by ({labels}) ({metric}{{{where}}})"


def of_resource(metric: str, labels: str = "", where: str = "") -> str:
    """A gauge that the operator has of each resource, by these labels as well."""
    of = ", ".join(filter(None, ("resource_namespace", "resource_name", labels)))
    return f"max by ({of}) ({metric}{{{', '.join(filter(None, (OF_RESOURCES, where)))}}})"
