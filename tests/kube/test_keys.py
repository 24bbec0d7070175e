# SPDX-License-Identifier: Apache-2.0
import logging
from typing import Any

import pytest

from tandem_connector.contract.keys import ExchangeKey
from tandem_operator.api.resource import Metadata
from tandem_operator.kube.client import Client
from tandem_operator.kube.keys import ensure_key
from tandem_operator.plan.types import ObjectKey, WantedKey
from tests.kube.fake_api import FakeApi
from tests.kube.test_client import failure

OWNER = Metadata(name="qwen", namespace="models", uid="owner-uid")


def wanted(*, generated: bool) -> WantedKey:
    metadata = {"name": "keys", "namespace": "models"}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
    return WantedKey(secret, "exchange.json", generated=generated)


def stored(api: FakeApi) -> dict[str, Any]:
    secret = api.get("secrets", "keys")
    assert secret is not None
    return secret


async def test_a_secret_is_made_with_a_new_key(api: FakeApi, client: Client) -> None:
    assert await ensure_key(client, OWNER, wanted(generated=True)) == (None, ())
    first = ExchangeKey.model_validate_json(stored(api)["stringData"]["exchange.json"])
    api.remove("secrets", "keys")
    await ensure_key(client, OWNER, wanted(generated=True))
    assert ExchangeKey.model_validate_json(stored(api)["stringData"]["exchange.json"]) != first


async def test_a_secret_that_is_there_is_neither_changed_nor_read(api: FakeApi, client: Client) -> None:
    await ensure_key(client, OWNER, wanted(generated=True))
    before = stored(api)
    for generated in (True, False):
        assert await ensure_key(client, OWNER, wanted(generated=generated)) == (None, ())
    assert stored(api) == before
    assert {asked.verb for asked in api.asked} == {"create"}


async def test_the_users_secret_is_missed_and_not_made(api: FakeApi, client: Client) -> None:
    missing, refusals = await ensure_key(client, OWNER, wanted(generated=False))
    assert (missing, refusals) == (wanted(generated=False), ())
    assert api.get("secrets", "keys") is None


async def test_what_the_server_refuses_is_told_of_our_secret_and_says_nothing_of_the_users(
    api: FakeApi, client: Client
) -> None:
    api.answer("POST", "/secrets", *[failure(403, "exceeded quota")] * 2)
    _, (refusal,) = await ensure_key(client, OWNER, wanted(generated=True))
    assert refusal.key == ObjectKey("v1", "Secret", "keys")
    assert "exceeded quota" in refusal.message
    assert await ensure_key(client, OWNER, wanted(generated=False)) == (None, ())


async def test_a_key_is_in_no_log(
    api: FakeApi, client: Client, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    await ensure_key(client, OWNER, wanted(generated=True))
    key = ExchangeKey.model_validate_json(stored(api)["stringData"]["exchange.json"]).secret_key
    output = capsys.readouterr()
    assert "key made" in output.out + output.err + caplog.text
    assert key not in output.out + output.err + caplog.text
