# SPDX-License-Identifier: Apache-2.0
"""How engines follow a change of their configuration: `spec.rollout` of a DisaggregatedInference."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from tandem_operator.api.base import ApiModel
from tandem_operator.api.rollout_rules import ROLLOUT_RULES
from tandem_operator.api.rule import rules
from tandem_operator.api.scaling_rules import MAX_REPLICAS
from tandem_operator.api.values import INT32, Duration


class Strategy(StrEnum):
    """In which order engines of the new configuration come and those of the old one go."""

    PAIRED = "Paired"
    """New ones come beside the old ones, which go as the new ones take turns."""
    RECREATE = "Recreate"
    """All of the old ones go first."""


class Rollout(ApiModel, json_schema_extra=rules(ROLLOUT_RULES)):
    """How engines follow a change of their configuration."""

    strategy: Strategy | None = None
    """`Paired` (default): new engines of both roles come beside the old ones, which go as the new ones take turns.

    `Recreate`: all old engines go first, and nobody answers until the new ones are ready."""
    max_surge_pairs: Annotated[int, Field(ge=0, le=MAX_REPLICAS, json_schema_extra=INT32)] | None = None
    """How many engines of each role there may be beyond those wanted while revisions change, within `scaling.gpuBudget`; default 1.

    With 0, or where the budget leaves no room, an old engine goes before a new one comes."""
    progress_deadline: Duration | None = None
    """How long no new engine may become ready, or show that KV moves, until the last complete revision comes back; default `1h`."""
    paused: bool | None = None
    """Leave revisions as they are: none is started, and one that was begun goes neither on nor back; default false.

    While two revisions have engines their numbers don't change either."""
