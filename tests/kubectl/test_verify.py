# SPDX-License-Identifier: Apache-2.0
"""`kubectl tandem verify`: it asks by an annotation, and tells what an operator makes of it."""

import asyncio
import io
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.progress import Progress

from tandem_connector.contract.types import Role
from tandem_operator.api.names import VERIFICATION_ANNOTATION, VERIFY_ANNOTATION
from tandem_operator.api.status import Reason, RequestedVerification, RequestState, Revision, Status
from tandem_operator.kube.kinds import POD, RESOURCE
from tandem_operator.kubectl import verifying
from tandem_operator.kubectl.exits import Exit, Failed
from tandem_operator.kubectl.terminal.verify import verify_report
from tandem_operator.kubectl.terminal.verify_progress import _Bars, verify_progress
from tandem_operator.kubectl.views.verify import Course, Verdict, VerifyView, not_waited_for, verify_view
from tandem_operator.plan.conversation import Standing
from tandem_operator.plan.plan import plan
from tandem_operator.plan.pods import EnginePod, engine_pods
from tandem_operator.plan.verification import PairRecord, Record, Round
from tests.builders import DEFAULTS, a_ready_pod, a_resource, carried_out, observed
from tests.builders.pods import PodBuilder
from tests.builders.resources import ResourceBuilder
from tests.kube.fake_api import FakeApi
from tests.kube.serving import new_api, serve
from tests.kubectl.builders import seen
from tests.kubectl.test_commands import run

SHOWN = PairRecord(standing=Standing.SHOWN, reason=Reason.VERIFIED)
MOVED_NOT = PairRecord(standing=Standing.FAILED, reason=Reason.NOTHING_MOVED, failures=2, detail="decode [computed] it")
ONCE = MOVED_NOT.model_copy(update={"failures": 1})
KEY = PairRecord(standing=Standing.OPEN, reason=Reason.KEY_REQUIRED, detail="decode asks for an API key")
D0, P0, P1 = "qwen-decode-0", "qwen-prefill-0", "qwen-prefill-1"


def pods(results: dict[str, PairRecord], *, request: str = "now") -> list[PodBuilder]:
    """Two prefill engines and a decode engine that know each other, and what the latter has answered to a request."""
    given = [a_ready_pod(Role.PREFILL, 0), a_ready_pod(Role.PREFILL, 1), a_ready_pod()]
    before = observed(a_resource().with_prefill(2).with_decode(1), given)
    told = engine_pods(carried_out(before, plan(before, DEFAULTS)))
    named = {pod.name: pod for pod in told}
    pairs = {_engine(named[name]) if name else "": record for name, record in results.items()}
    record = Record(engine=_engine(named[D0]), pairs=pairs, round=Round(request=request, pairs=pairs))
    made = [PodBuilder(dict(pod.manifest)) for pod in told]
    return [
        pod.patched({}, {**named[D0].annotations, VERIFICATION_ANNOTATION: record.to_annotation()})
        if pod.build()["metadata"]["name"] == D0
        else pod
        for pod in made
    ]


def _engine(pod: EnginePod) -> Any:
    assert pod.peer is not None
    return pod.peer.engine


def answered(state: RequestState, message: str = "words", request: str = "now") -> Status:
    since = "2026-01-01T12:00:00Z"
    answer = RequestedVerification(request=request, state=state, since=since, message=message)
    return Status(revision=Revision(current="r1"), verification=answer)


def a_view(
    results: dict[str, PairRecord], state: RequestState = RequestState.ANSWERED, *, asked: str = "now"
) -> VerifyView:
    resource = a_resource().annotated(VERIFY_ANNOTATION, asked).with_status(answered(state))
    return verify_view(seen(resource, pods(results)), "now")


def verdicts(view: VerifyView) -> dict[str, Verdict]:
    assert {pair.decode for pair in view.pairs} == {D0}
    return {pair.prefill: pair.verdict for pair in view.pairs}


def test_it_is_well_when_each_pair_has_shown_that_kv_moves() -> None:
    view = a_view({P0: SHOWN, P1: SHOWN})
    assert verdicts(view) == {P0: Verdict.SHOWN, P1: Verdict.SHOWN}
    assert (view.is_over, view.is_well, view.next) == (True, True, None)


def test_a_pair_that_failed_has_its_cause_and_the_command_to_go_on_with() -> None:
    view = a_view({P0: SHOWN, P1: MOVED_NOT})
    (failed,) = [pair for pair in view.pairs if pair.verdict is Verdict.FAILED]
    assert (failed.prefill, failed.reason, failed.detail) == (P1, "NothingMoved", "decode [computed] it")
    assert failed.next == view.next
    assert "logs --prefix --tail 100 --selector tandem.dev/engine=qwen" in (view.next or "")
    assert not view.is_well


def test_a_failure_that_may_pass_is_waited_for_and_told() -> None:
    view = a_view({P0: SHOWN, P1: ONCE}, RequestState.RUNNING)
    assert verdicts(view) == {P0: Verdict.SHOWN, P1: Verdict.WAITING}
    assert {pair.reason for pair in view.pairs} == {"", "NothingMoved"}
    assert not view.is_over


def test_what_cannot_be_told_is_not_well() -> None:
    view = a_view({"": KEY})
    assert verdicts(view) == {P0: Verdict.OPEN, P1: Verdict.OPEN}
    assert (view.is_well, view.next) == (False, "kubectl tandem explain qwen --namespace models")


def test_what_was_shown_for_another_request_counts_for_nothing() -> None:
    resource = (
        a_resource().annotated(VERIFY_ANNOTATION, "now").with_status(answered(RequestState.ANSWERED, request="x"))
    )
    view = verify_view(seen(resource, pods({P0: SHOWN, P1: SHOWN}, request="x")), "now")
    assert verdicts(view) == {P0: Verdict.WAITING, P1: Verdict.WAITING}
    assert (view.state, view.is_over) == (Course.ASKED, False)


def test_engines_of_a_revision_that_the_spec_does_not_say_are_left_out() -> None:
    status = answered(RequestState.RUNNING).model_copy(update={"revision": Revision(current="r1", next="r2")})
    resource = a_resource().annotated(VERIFY_ANNOTATION, "now").with_status(status)
    assert verify_view(seen(resource, pods({P0: SHOWN})), "now").pairs == ()


@pytest.mark.parametrize(
    ("state", "course"),
    [
        (RequestState.REFUSED, Course.REFUSED),
        (RequestState.TIMED_OUT, Course.TIMED_OUT),
    ],
)
def test_other_ends_are_not_well_and_lead_on(state: RequestState, course: Course) -> None:
    view = a_view({P0: SHOWN}, state)
    assert (view.state, view.message, view.is_over, view.is_well) == (course, "words", True, False)
    assert view.next == "kubectl tandem explain qwen --namespace models"


def test_a_newer_request_takes_its_place() -> None:
    view = a_view({P0: SHOWN}, RequestState.RUNNING, asked="another")
    assert (view.state, view.is_over, view.is_well) == (Course.SUPERSEDED, True, False)


def test_a_request_that_nobody_takes_up_is_told_from_one_that_takes_long() -> None:
    left = not_waited_for(a_view({P0: SHOWN}, RequestState.RUNNING), 5)
    assert (left.state, left.message) == (Course.LEFT, "not over after 5 s, and the operator goes on with it: words")
    resource = a_resource().annotated(VERIFY_ANNOTATION, "now")
    nobody = not_waited_for(verify_view(seen(resource), "now"), 5)
    assert "the operator hasn't taken it up within 5 s: it is down" in nobody.message
    assert "get deployments,leases" in (nobody.next or "")


def test_the_report_is_a_table_of_pairs_that_shows_words_as_they_are() -> None:
    written = io.StringIO()
    console = Console(width=200, file=written)
    for each in verify_report(a_view({P0: SHOWN, P1: MOVED_NOT})):
        console.print(each)
    said = written.getvalue()
    assert "models/qwen Answered: words" in said
    rows = [line.split() for line in said.splitlines() if line.startswith(D0)]
    assert rows == [
        [D0, P0, "✓", "shown"],
        [D0, P1, "✗", "failed", "NothingMoved", "decode", "[computed]", "it"],
    ]
    assert "next: kubectl --namespace models logs" in said


def test_progress_says_each_thing_once_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with verify_progress() as told:
        for results in ({}, {P0: SHOWN}, {P0: SHOWN}, {P0: SHOWN, P1: ONCE}, {P0: SHOWN, P1: MOVED_NOT}):
            told(a_view(results, RequestState.RUNNING))
    assert capsys.readouterr().err.splitlines() == [
        "request now of models/qwen",
        f"{D0} with {P0}: shown",
        f"{D0} with {P1}: waiting, to be tried again: NothingMoved: decode [computed] it",
        f"{D0} with {P1}: failed: NothingMoved: decode [computed] it",
    ]


def test_progress_on_a_terminal_has_a_bar_for_each_decode_engine_and_forgets_those_that_are_gone() -> None:
    with Progress(console=Console(quiet=True), disable=True) as progress:
        bars = _Bars(progress)
        bars.show(a_view({P0: SHOWN, P1: ONCE}, RequestState.RUNNING))
        (task,) = progress.tasks
        assert (task.description, task.completed, task.total) == (D0, 1, 2)
        assert r"decode \[computed] it" in task.fields["words"]
        bars.show(a_view({}, RequestState.REFUSED))
        assert progress.tasks == []


# The command, on an API server in memory, with an operator that a test plays


@pytest.fixture
async def api(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeApi]:
    monkeypatch.setattr(verifying, "LOOK_EVERY", 0.01)
    api = new_api()
    async with serve(api):
        yield api


def store(api: FakeApi, resource: ResourceBuilder) -> None:
    """A resource, and engines with a set in between."""
    stored = api.put(RESOURCE.plural, resource.with_status(Status(revision=Revision(current="r1"))).manifest())
    owner = {"kind": "DisaggregatedInference", "name": "qwen", "uid": stored["metadata"]["uid"], "controller": True}
    for role in Role:
        name = f"qwen-{role}"
        labels = {"tandem.dev/resource": "qwen", "tandem.dev/role": str(role)}
        metadata = {"name": name, "namespace": "models", "uid": name, "labels": labels, "ownerReferences": [owner]}
        api.put("statefulsets", {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": {}})
    store_pods(api, {}, "before")


def store_pods(api: FakeApi, results: dict[str, PairRecord], request: str) -> None:
    for pod in pods(results, request=request):
        manifest = pod.build()
        role = manifest["metadata"]["labels"]["tandem.dev/role"]
        uid = (api.get("statefulsets", f"qwen-{role}") or {})["metadata"]["uid"]
        controller = {"kind": "StatefulSet", "name": f"qwen-{role}", "uid": uid, "controller": True}
        api.put(POD.plural, manifest | {"metadata": manifest["metadata"] | {"ownerReferences": [controller]}})


def asked(api: FakeApi) -> str | None:
    stored = api.get(RESOURCE.plural, "qwen") or {}
    value: str | None = (stored.get("metadata", {}).get("annotations") or {}).get(VERIFY_ANNOTATION)
    return value


@asynccontextmanager
async def playing(api: FakeApi, step: Callable[[str], None]) -> AsyncIterator[None]:
    """An operator that does something when it is asked."""

    async def play() -> None:
        while (request := asked(api)) is None:  # noqa: ASYNC110 -- the API server in memory tells nobody
            await asyncio.sleep(0.005)
        step(request)

    task = asyncio.create_task(play())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def write_status(api: FakeApi, status: Status) -> None:
    stored = api.get(RESOURCE.plural, "qwen") or {}
    told = status.model_dump(mode="json", by_alias=True, exclude_none=True)
    api.put(RESOURCE.plural, {**stored, "metadata": dict(stored["metadata"]), "status": told})


@pytest.mark.parametrize(
    ("second", "exit_"), [(SHOWN, Exit.WELL), (MOVED_NOT, Exit.NOT_WELL)], ids=["all shown", "one failed"]
)
async def test_it_asks_by_an_annotation_waits_and_tells_programs(
    api: FakeApi, tmp_path: Path, capsys: pytest.CaptureFixture[str], second: PairRecord, exit_: Exit
) -> None:
    store(api, a_resource())

    def answer(request: str) -> None:
        store_pods(api, {P0: SHOWN, P1: second}, request)
        write_status(api, answered(RequestState.ANSWERED, request=request))

    async with playing(api, answer):
        assert await run(api, tmp_path, "verify", "qwen", "-o", "json") == exit_
    view = json.loads(capsys.readouterr().out)
    assert (view["state"], view["request"]) == ("Answered", asked(api))
    assert [pair["verdict"] for pair in view["pairs"]] == ["shown", "shown" if second is SHOWN else "failed"]
    ((method, path, patch),) = api.writes
    assert (method, path.rpartition("/")[2]) == ("PATCH", "qwen")
    assert patch["metadata"]["annotations"].keys() == {VERIFY_ANNOTATION}
    assert patch.keys() == {"metadata"}, "the spec is never written"


async def test_two_requests_in_succession_have_different_names(api: FakeApi, tmp_path: Path) -> None:
    store(api, a_resource())
    names = []
    for _ in range(2):
        assert await run(api, tmp_path, "verify", "qwen", "--timeout", "0.05") == Exit.NOT_WELL
        names.append(asked(api))
    assert len(set(names)) == 2


@pytest.mark.parametrize(
    ("resource", "words"),
    [
        (
            a_resource().with_spec("verification", value={"enabled": False}),
            "spec.verification.enabled is false, so no conversation is held: set it to true, and ask again\n"
            "next: kubectl --namespace models edit pdi qwen",
        ),
        (a_resource().pulling(), "spec.transfer.protocol is NixlPull"),
    ],
)
async def test_where_nothing_is_ever_tried_nothing_is_asked(
    api: FakeApi, tmp_path: Path, resource: ResourceBuilder, words: str
) -> None:
    store(api, resource)
    with pytest.raises(Failed) as failed:
        await run(api, tmp_path, "verify", "qwen")
    assert failed.value.exit is Exit.NOT_WELL
    assert words in str(failed.value)
    assert api.writes == []


async def test_a_request_that_is_refused_ends_at_once_with_the_operators_words(
    api: FakeApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store(api, a_resource())

    def refuse(request: str) -> None:
        write_status(api, answered(RequestState.REFUSED, "no pair is ready", request))

    async with playing(api, refuse):
        assert await run(api, tmp_path, "verify", "qwen") == Exit.NOT_WELL
    assert "models/qwen Refused: no pair is ready" in capsys.readouterr().out


async def test_without_the_right_to_edit_the_resource_it_says_so(api: FakeApi, tmp_path: Path) -> None:
    store(api, a_resource())
    api.answer("PATCH", "/disaggregatedinferences/qwen", (403, {}, json.dumps({"message": "joe cannot patch"})))
    with pytest.raises(Failed, match="joe cannot patch") as failed:
        await run(api, tmp_path, "verify", "qwen")
    assert failed.value.exit is Exit.NO_CLUSTER


async def test_a_resource_that_goes_while_it_is_asked_for_is_not_found(api: FakeApi, tmp_path: Path) -> None:
    store(api, a_resource())
    api.before("PATCH", "/disaggregatedinferences/qwen", lambda: api.remove(RESOURCE.plural, "qwen"))
    with pytest.raises(Failed, match="went, or was made anew, meanwhile") as failed:
        await run(api, tmp_path, "verify", "qwen")
    assert failed.value.exit is Exit.NOT_FOUND
