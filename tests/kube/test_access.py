# SPDX-License-Identifier: Apache-2.0
import asyncio
import datetime as dt
from pathlib import Path
from typing import Self

import pytest
import yaml
from kubernetes.aio.config import incluster_config
from prometheus_client import CollectorRegistry

from tandem_operator.kube.access import NoAccess, chosen_namespace, find_access
from tandem_operator.kube.client import Client
from tandem_operator.kube.kinds import POD
from tandem_operator.metrics import Metrics
from tests.kube.serving import configuration_of, new_api, serve


@pytest.fixture
def in_a_pod(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder with the files of a service account."""
    (tmp_path / "token").write_text("first")
    (tmp_path / "ca.crt").write_text("certificate")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    return tmp_path


def kubeconfig(folder: Path, token: str = "from-the-file") -> Path:
    path = folder / "config"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
        "clusters": [{"name": "here", "cluster": {"server": "https://example:6443"}}],
        "users": [{"name": "me", "user": {"token": token}}],
    }
    path.write_text(yaml.safe_dump(content))
    return path


async def test_in_a_pod_its_service_account_is_used(in_a_pod: Path) -> None:
    access = await find_access(None)
    assert access.configuration.host == "https://[fd00::1]:443"
    assert await access.authorization() == "bearer first"
    assert access.configuration.verify_ssl
    assert access.configuration.disable_strict_ssl_verification, "or clusters on EKS are refused from Python 3.13 on"


async def test_a_rotated_token_is_used_when_the_old_one_is_a_minute_old(
    in_a_pod: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    access = await find_access(None)
    (in_a_pod / "token").write_text("second")
    assert await access.authorization() == "bearer first"

    class Later(dt.datetime):
        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> Self:
            return super().now(tz) + dt.timedelta(seconds=61)

    monkeypatch.setattr(dt, "datetime", Later)
    assert await access.authorization() == "bearer second"


async def test_a_kubeconfig_that_is_named_wins_over_the_pods_account(in_a_pod: Path) -> None:
    access = await find_access(kubeconfig(in_a_pod))
    assert access.configuration.host == "https://example:6443"
    assert await access.authorization() == "Bearer from-the-file"


async def test_credentials_that_need_no_renewal_keep_the_process_running(tmp_path: Path) -> None:
    access = await find_access(kubeconfig(tmp_path))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(access.keep_fresh(), 0.05)


async def test_without_any_access_the_error_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(NoAccess, match="TANDEM_KUBECONFIG"):
        await find_access(tmp_path / "missing")


def two_contexts(folder: Path) -> Path:
    path = kubeconfig(folder)
    content = yaml.safe_load(path.read_text())
    content["contexts"].append({"name": "there", "context": {"cluster": "there", "user": "me", "namespace": "models"}})
    content["clusters"].append({"name": "there", "cluster": {"server": "https://there:6443"}})
    path.write_text(yaml.safe_dump(content))
    return path


async def test_a_context_is_used_in_place_of_the_current_one(tmp_path: Path) -> None:
    access = await find_access(two_contexts(tmp_path), "there")
    assert access.configuration.host == "https://there:6443"


async def test_a_context_that_is_not_there_is_no_access(tmp_path: Path) -> None:
    with pytest.raises(NoAccess, match="nowhere"):
        await find_access(two_contexts(tmp_path), "nowhere")


@pytest.mark.parametrize(("context", "namespace"), [("there", "models"), (None, "default"), ("nowhere", "default")])
def test_the_namespace_is_that_of_the_context(context: str | None, namespace: str, tmp_path: Path) -> None:
    assert chosen_namespace(two_contexts(tmp_path), context) == namespace


PROXY_VARIABLES = (
    "https_proxy",
    "HTTPS_PROXY",
    "http_proxy",
    "HTTP_PROXY",
    "all_proxy",
    "ALL_PROXY",
    "no_proxy",
    "NO_PROXY",
)


@pytest.fixture
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in PROXY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.mark.parametrize(
    ("variables", "proxy"),
    [
        ({}, None),
        ({"HTTPS_PROXY": "http://me:secret@proxy:3128"}, "http://me:secret@proxy:3128"),
        ({"HTTP_PROXY": "http://proxy:3128"}, None),
        ({"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "example"}, None),
        ({"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "example.org"}, "http://proxy:3128"),
    ],
)
async def test_the_proxy_is_that_of_the_environment(
    tmp_path: Path, no_proxies: pytest.MonkeyPatch, variables: dict[str, str], proxy: str | None
) -> None:
    for name, value in variables.items():
        no_proxies.setenv(name, value)
    assert (await find_access(kubeconfig(tmp_path))).configuration.proxy == proxy


async def test_a_service_account_goes_through_the_proxy_too(in_a_pod: Path, no_proxies: pytest.MonkeyPatch) -> None:
    no_proxies.setenv("HTTPS_PROXY", "http://proxy:3128")
    assert (await find_access(None)).configuration.proxy == "http://proxy:3128"
    no_proxies.setenv("NO_PROXY", "fd00::1")
    assert (await find_access(None)).configuration.proxy is None


async def test_the_kubeconfigs_proxy_wins_over_the_environments(tmp_path: Path, no_proxies: pytest.MonkeyPatch) -> None:
    path = kubeconfig(tmp_path)
    content = yaml.safe_load(path.read_text())
    content["clusters"][0]["cluster"]["proxy-url"] = "http://its-own:3128"
    path.write_text(yaml.safe_dump(content))
    no_proxies.setenv("HTTPS_PROXY", "http://proxy:3128")
    assert (await find_access(path)).configuration.proxy == "http://its-own:3128"


async def test_a_password_in_netrc_is_no_hindrance(tmp_path: Path, no_proxies: pytest.MonkeyPatch) -> None:
    api = new_api()
    async with serve(api):
        path = kubeconfig(tmp_path)
        content = yaml.safe_load(path.read_text())
        content["clusters"][0]["cluster"]["server"] = configuration_of(api).host
        path.write_text(yaml.safe_dump(content))
        (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password secret")
        no_proxies.setenv("NETRC", str(tmp_path / "netrc"))
        access = await find_access(path)
        async with Client(access.configuration, Metrics(CollectorRegistry())) as client:
            assert (await client.list(POD, "models", "")).items == []
