# SPDX-License-Identifier: Apache-2.0
"""Which of the things that watches tell are a reason to look at a resource again."""

from typing import Any

from tandem_operator.kube.news import News


def pod(version: int, name: str = "a") -> dict[str, Any]:
    return {"uid": f"uid-of-{name}", "resourceVersion": str(version)}


def test_what_was_read_later_than_it_happened_is_no_news() -> None:
    news: News[str] = News()
    news.read("qwen", "pods", "10")
    assert not news.heard("qwen", "pods", "MODIFIED", pod(10))
    assert news.heard("qwen", "pods", "MODIFIED", pod(11))
    assert news.heard("llama", "pods", "MODIFIED", pod(9, "of-another"))


def test_what_was_read_tells_nothing_of_other_kinds() -> None:
    news: News[str] = News()
    news.read("qwen", "statefulsets", "10")
    assert news.heard("qwen", "pods", "MODIFIED", pod(9))


def test_what_was_told_before_it_was_read_is_no_news_any_more() -> None:
    news: News[str] = News()
    news.heard("qwen", "pods", "ADDED", pod(9))
    assert (news.of("qwen"), news.about("qwen", "pods"), news.about("qwen", "statefulsets")) == (True, True, False)
    news.read("qwen", "pods", "10")
    assert not news.of("qwen")


def test_what_happens_while_it_is_read_stays_news() -> None:
    news: News[str] = News()
    news.heard("qwen", "pods", "MODIFIED", pod(12))
    news.read("qwen", "pods", "10")
    assert news.of("qwen")


def test_a_write_of_ours_is_no_news_whether_the_watch_or_the_answer_comes_first() -> None:
    news: News[str] = News()
    news.wrote(pod(11))
    assert not news.heard("qwen", "pods", "MODIFIED", pod(11))
    news.heard("qwen", "pods", "MODIFIED", pod(12))
    news.wrote(pod(12))
    assert not news.of("qwen")


def test_a_write_of_another_between_reading_and_writing_is_news_whatever_the_order() -> None:
    news: News[str] = News()
    news.read("qwen", "pods", "10")
    news.heard("qwen", "pods", "MODIFIED", pod(11))
    news.heard("qwen", "pods", "MODIFIED", pod(12))
    news.wrote(pod(12))
    assert news.of("qwen")
    news.wrote(pod(14, "b"))
    assert news.heard("qwen", "pods", "MODIFIED", pod(13, "b"))


def test_a_deletion_is_news_until_it_is_read() -> None:
    news: News[str] = News()
    news.wrote(pod(11))
    assert news.heard("qwen", "pods", "DELETED", pod(12))
    news.read("qwen", "pods", "12")
    assert not news.of("qwen")


def test_after_a_watch_started_over_our_writes_may_have_been_followed_by_others() -> None:
    news: News[str] = News()
    news.wrote(pod(11))
    before = news.epoch
    news.start_over()
    assert news.epoch != before
    assert news.heard("qwen", "pods", None, pod(11))


def test_nothing_is_kept_of_what_is_gone() -> None:
    news: News[str] = News()
    news.read("qwen", "pods", "10")
    news.heard("qwen", "pods", "MODIFIED", pod(11))
    news.forget("qwen")
    assert not news.of("qwen")
    assert news.heard("qwen", "pods", "ADDED", pod(5))
