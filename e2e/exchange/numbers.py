# SPDX-License-Identifier: Apache-2.0
"""Single numbers out of an engine's metrics."""

from prometheus_client.parser import text_string_to_metric_families


def value_of(text: str, name: str, **labels: str) -> float:
    """The sum of the samples of this name that have these labels; 0 if there are none.

    Args:
        text: metrics in Prometheus' text form.
        name: the sample's, with its suffix: `tandem_blocks_lost_total`.
        labels: what it must have, among others.
    """
    return sum(
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )
