# SPDX-License-Identifier: Apache-2.0
"""What a plain engine answers to each turn of each conversation, asked once and kept. Ties are as in `e2e.soak.expected`."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeAlias

from e2e.cache import key_of
from e2e.chaos.topology.talks import Talk
from e2e.cluster.local import processes
from e2e.cluster.progress import Progress
from e2e.engine.environment import EngineEnvironment
from e2e.engine.model import MODEL_NAME
from e2e.exchange.engine import Engine, EngineSpec
from e2e.exchange.engines import running
from e2e.soak.expected import Expected, read_answer

Answers: TypeAlias = dict[str, list[Expected]]
"""By the conversation's name, one for each turn."""


def expected_answers(environment: EngineEnvironment, model: Path, talks: Sequence[Talk], kept_in: Path) -> Answers:
    """The answers kept in a folder, or else those of a plain engine that is started for it.

    It computes on one core, as each engine in a pod: with another number of threads sums are rounded differently. One that a run
    left, which was killed, is ended.
    """
    processes.end(kept_in)
    kept = kept_in / f"expected-{key_of(environment.root.name, model / 'model.safetensors', repr(talks))}.json"
    if not kept.exists():
        with running(environment, model, kept_in / "plain") as engines:
            marked = {processes.STATE_MARK: str(kept_in), processes.NAME_MARK: "plain"}
            plain = engines.start(plain=EngineSpec(None, core="0", environment=marked))["plain"]
            with Progress("asking a plain engine what is right") as progress:
                answers = {}
                for talk in talks:
                    progress.update(talk.name)
                    answers[talk.name] = _answers(plain, talk)
        content = {name: [asdict(answer) for answer in each] for name, each in answers.items()}
        unfinished = kept.with_suffix(".unfinished")
        unfinished.write_text(json.dumps(content))
        unfinished.replace(kept)
    return {name: [read_answer(each) for each in answers] for name, answers in json.loads(kept.read_text()).items()}


def _answers(plain: Engine, talk: Talk) -> list[Expected]:
    answers: list[Expected] = []
    for turn, output in enumerate(talk.output):
        body = {
            "model": MODEL_NAME,
            "messages": talk.messages(turn, [answer.text for answer in answers]),
            "max_tokens": output,
            "temperature": 0.0,
            "logprobs": True,
            "top_logprobs": 2,
        }
        choice = plain.post("/v1/chat/completions", body, timeout=120.0)["choices"][0]
        answers.append(Expected.of(as_completion(choice)))
    return answers


def as_completion(choice: dict[str, Any]) -> dict[str, Any]:
    """A choice of vLLM's `/v1/chat/completions`, in the form of `/v1/completions`, without token ids."""
    said = choice["logprobs"]["content"]
    return {
        "text": choice["message"]["content"],
        "token_ids": (),
        "logprobs": {
            "tokens": [token["token"] for token in said],
            "top_logprobs": [{best["token"]: best["logprob"] for best in token["top_logprobs"]} for token in said],
        },
    }
