# SPDX-License-Identifier: Apache-2.0
"""Times as Kubernetes writes them."""

from datetime import UTC, datetime


def stamp(at: datetime) -> str:
    """A time, which has a time zone, as `metav1.Time` is in JSON: in UTC, to the second."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
