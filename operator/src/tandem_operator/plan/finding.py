# SPDX-License-Identifier: Apache-2.0
"""A condition without its history."""

from dataclasses import dataclass

from tandem_operator.api.status import Reason


@dataclass(frozen=True)
class Finding:
    """What a condition is to say."""

    status: bool | None
    """None: it can't be told."""
    reason: Reason
    message: str
