# SPDX-License-Identifier: Apache-2.0
from collections.abc import AsyncIterator

import pytest
from prometheus_client import CollectorRegistry

from tandem_operator.kube.client import Client
from tandem_operator.metrics import Metrics
from tests.kube.fake_api import FakeApi
from tests.kube.serving import client_of, new_api, serve


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(CollectorRegistry())


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    api = new_api()
    async with serve(api):
        yield api


@pytest.fixture
async def client(api: FakeApi, metrics: Metrics) -> AsyncIterator[Client]:
    async with client_of(api, metrics) as client:
        yield client
