# SPDX-License-Identifier: Apache-2.0
"""What a plain engine answers to each turn of each conversation, asked once and kept.

The rule for numeric ties is that of `e2e.exchange.likeness`, for clients that see no log-probabilities: where the plain engine's
two best tokens are closer than `TIE`, the other one is as right, and so is whatever follows from it. An answer is wrong
if it differs before the first such place.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

from e2e.cache import key_of
from e2e.cluster.progress import Progress
from e2e.engine.environment import EngineEnvironment
from e2e.engine.model import MODEL_NAME
from e2e.exchange.engine import Engine, EngineSpec
from e2e.exchange.engines import running
from e2e.exchange.likeness import TIE
from e2e.soak.scripts import Script, Turn


@dataclass(frozen=True)
class Expected:
    """One answer."""

    ids: tuple[int, ...]
    text: str
    certain: int
    """So many first characters are the same in every right answer."""

    def allows(self, text: str) -> bool:
        """Whether the text is a right answer."""
        return self.begins_with(text) and (len(text) == len(self.text) or self.certain < min(len(text), len(self.text)))

    def begins_with(self, text: str) -> bool:
        """Whether the text is the beginning of a right answer."""
        return text[: self.certain] == self.text[: len(text)][: self.certain]

    @classmethod
    def of(cls, choice: dict[str, Any]) -> "Expected":
        """From a choice of vLLM's `/v1/completions` with `return_token_ids` and `logprobs=2`."""
        said = choice["logprobs"]
        tied = next((place for place, best in enumerate(said["top_logprobs"]) if _is_tied(best)), None)
        text = choice["text"]
        return cls(
            tuple(choice["token_ids"]),
            text,
            len(text) if tied is None else len("".join(said["tokens"][:tied])),
        )


Answers: TypeAlias = dict[str, list[Expected]]
"""By the script's name, one for each turn."""


def expected_answers(
    environment: EngineEnvironment, model: Path, scripts: Sequence[Script], folder: Path, core: str = "0"
) -> Answers:
    """The answers kept in `folder`, or else those of a plain engine that is started for it.

    Args:
        environment: the engines'.
        model: its folder.
        scripts: what is to be answered.
        folder: what was answered is kept here, under a name made of all the above.
        core: where the engine computes; as many cores as each of the engines that it is compared with has.
    """
    kept = folder / f"expected-{key_of(environment.root.name, model / 'model.safetensors', repr(scripts))}.json"
    if not kept.exists():
        with running(environment, model, folder / "plain") as engines:
            plain = engines.start(plain=EngineSpec(None, core=core))["plain"]
            with Progress("asking a plain engine what is right") as progress:
                answers = {}
                for script in scripts:
                    progress.update(script.name)
                    answers[script.name] = _answers(plain, model, script)
        content = {name: [asdict(answer) for answer in each] for name, each in answers.items()}
        unfinished = kept.with_suffix(".unfinished")
        unfinished.write_text(json.dumps(content))
        unfinished.replace(kept)
    return {name: [read_answer(each) for each in answers] for name, answers in json.loads(kept.read_text()).items()}


def _answers(plain: Engine, model: Path, script: Script) -> list[Expected]:
    answers: list[Expected] = []
    for turn in script.turns:
        ids = turn.ids(model, {number: answer.ids for number, answer in enumerate(answers)})
        answers.append(Expected.of(_asked(plain, ids, turn)))
    return answers


def _asked(plain: Engine, ids: list[int], turn: Turn) -> dict[str, Any]:
    body = {
        "model": MODEL_NAME,
        "prompt": ids,
        "max_tokens": turn.output,
        "temperature": 0.0,
        "logprobs": 2,
        "return_token_ids": True,
    }
    choice: dict[str, Any] = plain.post("/v1/completions", body, timeout=120.0)["choices"][0]
    return choice


def _is_tied(best: dict[str, float]) -> bool:
    first, second, *_ = sorted(best.values(), reverse=True)
    return first - second < TIE


def read_answer(answer: dict[str, Any]) -> Expected:
    """From `dataclasses.asdict`, which was kept as JSON."""
    return Expected(tuple(answer["ids"]), answer["text"], answer["certain"])
