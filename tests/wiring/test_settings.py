# SPDX-License-Identifier: Apache-2.0
import json
import logging
from collections.abc import Iterator

import pytest
import structlog
from pydantic import ValidationError
from pydantic_settings import CliApp

from tandem_operator import logs
from tandem_operator.__main__ import main
from tandem_operator.kube.observe import ResourceKey
from tandem_operator.settings import Settings


def test_an_option_wins_over_the_environment_and_that_over_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TANDEM_WORKERS", "7")
    monkeypatch.setenv("TANDEM_LOG_FORMAT", "text")
    settings = CliApp.run(Settings, cli_args=["--workers", "9"])
    assert (settings.workers, settings.log_format, settings.resync) == (9, "text", 600)


@pytest.mark.parametrize(("given", "namespaces"), [("", ()), ("a", ("a",)), ("a, b,", ("a", "b"))])
def test_namespaces_are_separated_by_commas(
    monkeypatch: pytest.MonkeyPatch, given: str, namespaces: tuple[str, ...]
) -> None:
    monkeypatch.setenv("TANDEM_NAMESPACES", given)
    assert Settings().namespaces == namespaces
    assert CliApp.run(Settings, cli_args=["--namespaces", given]).namespaces == namespaces


def test_lease_times_that_would_allow_two_leaders_are_refused() -> None:
    with pytest.raises(ValidationError, match="lease-retry < lease-renew-deadline < lease-duration"):
        Settings(lease_duration=5, lease_renew_deadline=5)


def test_help_shows_every_setting_with_its_meaning(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["run", "--help"])
    assert caught.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    for name, info in Settings.model_fields.items():
        assert f"--{name.replace('_', '-')}" in text
        assert info.description
        assert " ".join(info.description.split())[:20] in text
    assert "TANDEM_LOG_FORMAT" in text


@pytest.mark.parametrize(
    ("arguments", "status"), [([], 0), (["--help"], 0), (["walk"], 2), (["run", "--workers", "0"], 2)]
)
def test_the_exit_status_says_whether_the_command_line_was_understood(arguments: list[str], status: int) -> None:
    assert main(arguments) == status


def test_a_process_without_a_cluster_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], restored_logging: None
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert main(["run", "--kubeconfig", "no-such-file"]) == 1
    *_, last = capsys.readouterr().err.splitlines()
    assert "TANDEM_KUBECONFIG" in json.loads(last)["error"]


@pytest.fixture
def restored_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    kopf_level = logging.getLogger("kopf").level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.getLogger("kopf").setLevel(kopf_level)
    structlog.reset_defaults()


def test_our_lines_and_those_of_libraries_are_json_with_the_same_keys(
    capsys: pytest.CaptureFixture[str], restored_logging: None
) -> None:
    logs.configure("json", "info")
    structlog.get_logger("ours").info("applied", cr=ResourceKey("models", "qwen"), kind="Service")
    logging.getLogger("theirs").warning("Something %s", "happened")
    logging.getLogger("kopf.objects").info("Handler succeeded.")
    ours, theirs = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert (ours["event"], ours["cr"], ours["level"], ours["logger"]) == ("applied", "models/qwen", "info", "ours")
    assert (theirs["event"], theirs["level"], theirs["logger"]) == ("Something happened", "warning", "theirs")
    assert ours.keys() >= theirs.keys()


def test_an_error_is_one_line_with_its_traceback(capsys: pytest.CaptureFixture[str], restored_logging: None) -> None:
    logs.configure("json", "info")
    try:
        raise ValueError("broken")
    except ValueError:
        structlog.get_logger().exception("reconcile failed")
    (line,) = capsys.readouterr().err.splitlines()
    assert "broken" in json.dumps(json.loads(line)["exception"])


def test_text_is_for_people(capsys: pytest.CaptureFixture[str], restored_logging: None) -> None:
    logs.configure("text", "debug")
    structlog.get_logger("ours").debug("applied", kind="Service")
    assert "applied" in capsys.readouterr().err
