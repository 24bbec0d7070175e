# SPDX-License-Identifier: Apache-2.0
import json

import pytest

from e2e.soak.clients import BrokenError, add_answer


def choice(text: str, *, index: int = 0, finish: str | None = None) -> dict[str, object]:
    return {"index": index, "text": text, "finish_reason": finish}


def said(*choices: dict[str, object]) -> str:
    return json.dumps({"choices": choices})


def test_parts_of_an_answer_are_put_together_choice_by_choice() -> None:
    texts = ["", ""]

    add_answer(said(choice("lark ")), texts)
    add_answer(said(choice("wren", index=1, finish="length")), texts)
    add_answer(said(choice("owl", finish="stop")), texts)

    assert texts == ["lark owl", "wren"]


def test_an_answer_that_the_engine_gave_up_is_none_and_what_came_of_it_is_kept() -> None:
    texts = [""]

    with pytest.raises(BrokenError, match="gave the request up"):
        add_answer(said(choice("lark", finish="abort")), texts)

    assert texts == ["lark"]


def test_an_error_in_a_stream_is_no_answer() -> None:
    with pytest.raises(BrokenError, match="no room"):
        add_answer('{"error": {"message": "no room"}}', [""])
