# SPDX-License-Identifier: Apache-2.0
"""One thing that `doctor` found, and the cluster as it was looked at."""

from dataclasses import dataclass
from enum import StrEnum

from tandem_operator.api.base import ApiModel
from tandem_operator.plan.types import Manifest


class Severity(StrEnum):
    """How bad a finding is."""

    FAULT = "fault"
    """Engines won't run, or won't exchange over what they should."""
    WARNING = "warning"
    """It works, but not as well, or not for all."""
    HINT = "hint"
    """What can't be seen through the API: how to look."""


class Finding(ApiModel):
    """What was found, and what to do."""

    severity: Severity
    subject: str
    message: str
    remedy: str
    command: str | None = None


@dataclass(frozen=True)
class ClusterSeen:
    """Read at one time; None: it couldn't be read."""

    nodes: tuple[Manifest, ...] | None = ()
    daemon_sets: tuple[Manifest, ...] | None = ()
    operators: tuple[Manifest, ...] | None = ()
    """Deployments of Tandem's operator."""
    definitions: tuple[Manifest, ...] | None = ()
    """CustomResourceDefinitions."""
    namespaces: tuple[Manifest, ...] | None = ()
    resources: tuple[Manifest, ...] | None = ()
    """DisaggregatedInferences."""
    unread: tuple[str, ...] = ()
    """What couldn't be read, and why."""
