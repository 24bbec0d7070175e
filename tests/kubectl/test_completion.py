# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence

import pytest

from tandem_operator.kubectl.arguments import COMMANDS, OUTPUTS
from tandem_operator.kubectl.commands import BY_NAME
from tandem_operator.kubectl.completion import complete

NO_FILES, FILES = 4, 0


def names(before: Sequence[str]) -> list[str]:
    return ["qwen", "other"]


@pytest.mark.parametrize(
    ("words", "candidates", "directive"),
    [
        (["st"], ["status"], NO_FILES),
        (["explain", "q"], ["qwen"], NO_FILES),
        (["drain", "--dry-run", "o"], ["other"], NO_FILES),
        (["status", "-n", "models", ""], ["qwen", "other"], NO_FILES),
        (["topology", "qwen", "--out"], ["--output"], NO_FILES),
        (["topology", "qwen", "-o", "s"], ["svg"], NO_FILES),
        (["status", "--namespace", ""], [], NO_FILES),
        (["ui", "q"], ["qwen"], NO_FILES),
        (["ui", "--port", ""], [], NO_FILES),
        (["bench", "q"], ["qwen"], NO_FILES),
        (["v"], ["verify"], NO_FILES),
        (["verify", "q"], ["qwen"], NO_FILES),
        (["verify", "qwen", "--time"], ["--timeout"], NO_FILES),
        (["verify", "qwen", "--timeout", ""], [], NO_FILES),
        (["bench", "qwen", "--max"], ["--max-tokens"], NO_FILES),
        (["bench", "--turns", ""], [], NO_FILES),
        (["render", "-f", ""], [], FILES),
        (["unheard", "--"], [], NO_FILES),
    ],
)
def test_what_may_follow_is_offered(words: list[str], candidates: list[str], directive: int) -> None:
    assert complete(words, names) == (candidates, directive)


def test_every_command_is_described_done_and_has_outputs_with_json() -> None:
    assert set(COMMANDS) == set(BY_NAME) == set(OUTPUTS)
    assert all("json" in outputs for outputs in OUTPUTS.values())
