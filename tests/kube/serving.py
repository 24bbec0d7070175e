# SPDX-License-Identifier: Apache-2.0
"""The fake API server on a port, and clients of it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp.test_utils import TestServer
from kubernetes.aio.client import Configuration

from tandem_operator.kube.client import Client
from tandem_operator.kube.kinds import CHILD_KINDS, EVENT, LEASE, NODE, POD, RESOURCE, SECRET, Kind
from tandem_operator.metrics import Metrics
from tests.kube.fake_api import FakeApi


def new_api(*, without: tuple[Kind, ...] = ()) -> FakeApi:
    """An empty API server that serves all kinds that the operator knows."""
    served: dict[str, tuple[str, ...]] = {"v1": ("namespaces",)}
    # kopf waits for these two, whether it reads them or not.
    served["apiextensions.k8s.io/v1"] = ("customresourcedefinitions",)
    for kind in (RESOURCE, POD, NODE, LEASE, EVENT, SECRET, *CHILD_KINDS):
        if kind not in without:
            served[kind.api_version] = (*served.get(kind.api_version, ()), kind.plural)
    return FakeApi(served)


@asynccontextmanager
async def serve(api: FakeApi) -> AsyncIterator[None]:
    """Have the API server answer while the block runs."""
    server = TestServer(api.application())
    await server.start_server()
    api.address = str(server.make_url("")).rstrip("/")
    try:
        yield
    finally:
        await server.close()


def configuration_of(api: FakeApi) -> Configuration:
    """How to reach a server that is being served."""
    return Configuration(host=api.address)


def client_of(api: FakeApi, metrics: Metrics) -> Client:
    """A client that does not wait between attempts."""

    async def do_not_wait(_: float) -> None:
        return

    return Client(configuration_of(api), metrics, sleep=do_not_wait)
