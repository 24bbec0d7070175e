# SPDX-License-Identifier: Apache-2.0
"""Where the API server is and how to log in: the pod's service account, or a kubeconfig file."""

import asyncio
import os
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from kubernetes.aio.client import Configuration
from kubernetes.aio.config import (
    ConfigException,
    list_kube_config_contexts,
    load_incluster_config,
    load_kube_config,
    refresh_token,
)

_NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class NoAccess(Exception):  # noqa: N818 -- says what there is none of
    """Neither a service account nor a kubeconfig is there."""


@dataclass(frozen=True)
class Access:
    """The API server's address and valid credentials, kept fresh by `keep_fresh`."""

    configuration: Configuration
    keep_fresh: Callable[[], Coroutine[None, None, None]]
    """Runs for ever; renews credentials that a kubeconfig's plugin makes. Service-account tokens renew themselves."""

    async def authorization(self) -> str | None:
        """The `Authorization` header for a request made now; None when a client certificate is used."""
        return await self.configuration.get_api_key_with_prefix("BearerToken", alias="authorization")


async def find_access(kubeconfig: Path | None, context: str | None = None) -> Access:
    """Access by this kubeconfig, else by the pod's service account, else by `KUBECONFIG` or `~/.kube/config`.

    Args:
        kubeconfig: the file; None: as above.
        context: of the kubeconfig; None: its current one. With a context no service account is used.

    Raises:
        NoAccess: none of them can be used.
    """
    configuration = Configuration()
    # From Python 3.13 on, certificates are by default refused for want of extensions that the authority of an EKS cluster
    # does not have: https://github.com/kubernetes-client/python/issues/2394. They are verified as before 3.13.
    configuration.disable_strict_ssl_verification = True
    try:
        if kubeconfig is None and context is None and os.environ.get("KUBERNETES_SERVICE_HOST"):
            load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
            _settle_proxy(configuration)
            return Access(configuration, _for_ever)
        loader = await load_kube_config(  # type: ignore[no-untyped-call]
            config_file=str(kubeconfig) if kubeconfig else None,
            context=context,
            client_configuration=configuration,
            persist_config=False,
        )
    except (ConfigException, OSError) as error:
        raise NoAccess(
            f"no access to a cluster: {error}. Run in a pod with a service account, or set TANDEM_KUBECONFIG"
        ) from error
    _settle_proxy(configuration)

    async def renew() -> None:
        await refresh_token(loader, configuration)  # type: ignore[no-untyped-call]
        await _for_ever()

    return Access(configuration, renew)


def own_namespace() -> str:
    """The namespace of the pod that this process runs in; `default` outside of a cluster."""
    return _NAMESPACE_FILE.read_text().strip() if _NAMESPACE_FILE.exists() else "default"


def chosen_namespace(kubeconfig: Path | None, context: str | None) -> str:
    """The namespace that the context of `find_access` names, or that its pod is in; else `default`."""
    if kubeconfig is None and context is None and os.environ.get("KUBERNETES_SERVICE_HOST"):
        return own_namespace()
    try:
        contexts, current = list_kube_config_contexts(  # type: ignore[no-untyped-call]
            str(kubeconfig) if kubeconfig else None
        )
    except (ConfigException, OSError):
        return "default"
    named = {each["name"]: each for each in contexts}
    chosen = named.get(context) if context else current
    return str(((chosen or {}).get("context") or {}).get("namespace") or "default")


def _settle_proxy(configuration: Configuration) -> None:
    """Settle for all sessions through which proxy to go: the kubeconfig's, else that of the environment, if any.

    Left to itself, aiohttp reads the environment and `.netrc` for each request, in threads: two changes of threads before each
    write, for which a busy process waits longer than for the API server; and it refuses a request for whose host `.netrc` has a
    password, because there is a token as well.
    """
    address = urlsplit(configuration.host)
    if not configuration.proxy and address.hostname and not proxy_bypass(address.hostname):
        configuration.proxy = getproxies().get(address.scheme)
    configuration.client_session_kwargs = {"trust_env": False}


async def _for_ever() -> None:
    await asyncio.Event().wait()
