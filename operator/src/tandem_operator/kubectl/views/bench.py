# SPDX-License-Identifier: Apache-2.0
"""What a benchmark's turns come to, by how deep in their conversations they were."""

from collections import Counter
from collections.abc import Iterable, Sequence
from math import ceil
from statistics import median_low

from tandem_operator.api.base import ApiModel
from tandem_operator.kubectl.views.bench_engines import EnginesDid
from tandem_operator.kubectl.views.bench_plan import Plan


class Turn(ApiModel):
    """One turn as its client saw it."""

    conversation: int
    depth: int
    """Which turn of its conversation, from 1."""
    prompt_tokens: int | None = None
    """As the server counted; None: it didn't say."""
    output_tokens: int | None = None
    """As the server counted; None: it didn't say."""
    first_token: float | None = None
    """Seconds from the request to the first token; None: there was none."""
    per_output_token: float | None = None
    """Seconds from the first token to the last one, by each token after the first; None: that can't be told."""
    error: str | None = None
    """Why there is no whole answer; None: there is."""


class Spread(ApiModel):
    """Seconds. Percentiles are values that occurred (nearest rank): p99 of fewer than 100 is the highest."""

    p50: float
    p99: float


class Depth(ApiModel):
    """All turns of one depth."""

    depth: int
    answered: int
    errors: int
    not_asked: int
    """Since their conversations had an error before."""
    prompt_tokens: int | None
    """The median of the turns that were answered; None: the server never said."""
    first_token: Spread | None
    """Of the turns that were answered; None: none was."""
    per_output_token: Spread | None
    """Of the turns that were answered; None: it couldn't be told of any."""


class Problem(ApiModel):
    """One kind of error."""

    words: str
    turns: int


class BenchView(ApiModel):
    """A benchmark at its end."""

    namespace: str
    name: str
    model: str
    way: str
    """How the front door was reached."""
    plan: Plan
    seconds: float
    """That all of it took."""
    depths: tuple[Depth, ...]
    problems: tuple[Problem, ...]
    """The most frequent first."""
    notes: tuple[str, ...]
    """What else is to be known of these numbers."""
    engines: EnginesDid
    turns: tuple[Turn, ...]

    @property
    def is_well(self) -> bool:
        """Whether each turn was answered."""
        return not self.problems


def percentile(values: Iterable[float], percent: int) -> float:
    """The lowest of the values that so many of a hundred don't exceed; there is at least one."""
    ordered = sorted(values)
    return ordered[max(ceil(len(ordered) * percent / 100), 1) - 1]


def depths_of(plan: Plan, turns: Sequence[Turn]) -> tuple[Depth, ...]:
    """All depths that were planned, whether reached or not."""
    return tuple(
        _depth(plan, depth, [each for each in turns if each.depth == depth]) for depth in range(1, plan.turns + 1)
    )


def problems_of(turns: Iterable[Turn]) -> tuple[Problem, ...]:
    """Each kind of error once."""
    counted = Counter(each.error for each in turns if each.error is not None)
    return tuple(Problem(words=words, turns=count) for words, count in counted.most_common())


def _depth(plan: Plan, depth: int, turns: Sequence[Turn]) -> Depth:
    answered = [each for each in turns if each.error is None]
    prompts = [each.prompt_tokens for each in answered if each.prompt_tokens is not None]
    return Depth(
        depth=depth,
        answered=len(answered),
        errors=len(turns) - len(answered),
        not_asked=plan.conversations - len(turns),
        prompt_tokens=median_low(prompts) if prompts else None,
        first_token=_spread(each.first_token for each in answered),
        per_output_token=_spread(each.per_output_token for each in answered),
    )


def _spread(values: Iterable[float | None]) -> Spread | None:
    known = [each for each in values if each is not None]
    return Spread(p50=percentile(known, 50), p99=percentile(known, 99)) if known else None
