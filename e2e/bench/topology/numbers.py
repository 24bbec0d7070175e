# SPDX-License-Identifier: Apache-2.0
"""Sums over many measurements."""

import math
from collections.abc import Mapping, Sequence


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest of the values that at least this share of them (0 to 1) does not exceed.

    Raises:
        ValueError: there are none.
    """
    if not values:
        raise ValueError("no values, so no percentile")
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def percentile_of_histogram(counts: Mapping[float, float], share: float) -> float:
    """As `percentile`, of values of which only a Prometheus histogram is known; linear within a bucket, as in Prometheus.

    Args:
        counts: by upper bound, infinity included: how many values do not exceed it.
        share: 0 to 1.

    Raises:
        ValueError: nothing was counted.
    """
    bounds = sorted(counts)
    if not bounds or not counts[bounds[-1]]:
        raise ValueError("nothing was counted, so no percentile")
    rank = share * counts[bounds[-1]]
    below, lower = 0.0, 0.0
    for bound in bounds:
        if counts[bound] >= rank and counts[bound] > below:
            return lower if math.isinf(bound) else lower + (bound - lower) * (rank - below) / (counts[bound] - below)
        below, lower = counts[bound], bound
    raise ValueError("a histogram's counts grow with its bounds")
