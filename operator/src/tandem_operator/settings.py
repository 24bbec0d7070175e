# SPDX-License-Identifier: Apache-2.0
"""Settings of the operator's process: command line, else environment (`TANDEM_...`), else default."""

import os
import socket
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

LogFormat = Literal["json", "text"]
LogLevel = Literal["debug", "info", "warning", "error"]


class Settings(BaseSettings):
    """Run the operator.

    Every option can also be given as an environment variable: --log-format as TANDEM_LOG_FORMAT.
    """

    model_config = SettingsConfigDict(
        env_prefix="TANDEM_",
        cli_kebab_case=True,
        cli_implicit_flags=True,
        cli_prog_name="tandem-operator run",
        use_attribute_docstrings=True,
        frozen=True,
        extra="ignore",
    )

    namespaces: Annotated[tuple[str, ...], NoDecode] = ()
    """Namespaces to serve, separated by commas; none: all of the cluster."""
    front_door_image: str = "tandem.dev/front-door:0.1.0"
    """Image of the front door (vllm-router) of resources that name none."""
    connector_image: str = "tandem.dev/connector-init:0.1.0"
    """Image of the init container that brings Tandem's connector into the engines' pods."""
    kubeconfig: Path | None = None
    """Kubeconfig file to use; default: the pod's service account, else KUBECONFIG or ~/.kube/config."""

    workers: Annotated[int, Field(ge=1, le=64)] = 4
    """Resources that are reconciled at the same time."""
    conversations: Annotated[int, Field(ge=1, le=64)] = 4
    """Conversations with engines, which show that KV moves, that are held at the same time."""
    reconcile_timeout: Annotated[float, Field(gt=0)] = 60.0
    """Seconds that one reconcile may take."""
    resync: Annotated[float, Field(gt=0)] = 600.0
    """Seconds within which every resource is looked at again though nothing happened; at random in the upper half."""
    request_timeout: Annotated[float, Field(gt=0)] = 30.0
    """Seconds that one request to the API server may take."""

    watch_timeout: Annotated[int, Field(ge=10)] = 240
    """Seconds after which the API server ends a watch request, to be made again."""
    watch_grace: Annotated[float, Field(ge=10)] = 120.0
    """Seconds by which a watch may be late, with its next request or with telling of the operator's own write, before it is
    taken for dead and /healthz fails."""

    lease_name: str = "tandem-operator"
    """Name of the Lease by which one replica is elected to work."""
    lease_namespace: str | None = None
    """Namespace of the Lease; default: that of the pod."""
    lease_duration: float = 15.0
    """Seconds after which a leader that was not heard of is replaced."""
    lease_renew_deadline: float = 10.0
    """Seconds after which a leader that cannot renew the Lease stops working."""
    lease_retry: float = 2.0
    """Seconds between two looks at the Lease."""
    identity: str = Field(default_factory=lambda: f"{socket.gethostname()}-{os.getpid()}")
    """Name of this replica in the Lease and in Events; default: host name and process id."""

    http_host: str = "0.0.0.0"  # noqa: S104 -- the kubelet and Prometheus come from outside of the pod
    """Address to serve /healthz, /readyz and /metrics on."""
    http_port: Annotated[int, Field(ge=0, le=65535)] = 8080
    """Port of /healthz, /readyz and /metrics; 0: any free one."""

    log_format: LogFormat = "json"
    """`json` for machines, `text` for people."""
    log_level: LogLevel = "info"
    """The least severe log lines that are written."""

    @field_validator("namespaces", mode="before")
    @classmethod
    def _separate(cls, value: object) -> object:
        return tuple(filter(None, map(str.strip, value.split(",")))) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _lease_times(self) -> Self:
        if not 0 < self.lease_retry < self.lease_renew_deadline < self.lease_duration:
            raise ValueError("set the lease's times so that lease-retry < lease-renew-deadline < lease-duration")
        return self
