# SPDX-License-Identifier: Apache-2.0
"""What the connector is told, read by the connector's own settings."""

from pathlib import Path
from typing import Any

import pytest

from tandem_connector.contract.reverse import Reverse
from tandem_connector.contract.types import Role
from tandem_connector.vllm.settings import ConnectorSettings
from tandem_operator.plan.resolve import resolve
from tandem_operator.plan.transfer import transfer_arguments, transfer_settings
from tests.builders import DEFAULTS, a_resource
from tests.builders.resources import ResourceBuilder
from tests.plan.made import environment

POD_IP = "10.0.0.7"


def settings(resource: ResourceBuilder, role: Role = Role.DECODE) -> ConnectorSettings:
    """As an engine of the role reads them in its pod."""
    extra = transfer_settings(resolve(resource.build(), DEFAULTS))["kv_connector_extra_config"]
    variables = {
        name: POD_IP if isinstance(value, dict) else value for name, value in environment(resource, role).items()
    }
    return ConnectorSettings.of(extra, variables)


def test_what_the_resource_leaves_open_is_what_the_connector_takes_by_itself() -> None:
    told = settings(a_resource()).model_dump()
    of_the_pod = {"listen_host", "listen_port", "role", "peers_file", "keys_file", "status_file"}
    assert {name for name, value in ConnectorSettings().model_dump().items() if told[name] != value} == of_the_pod


@pytest.mark.parametrize("role", Role)
def test_an_engine_finds_its_role_its_files_and_where_to_listen(role: Role) -> None:
    told = settings(a_resource(), role)
    assert (told.role, told.listen_host, told.listen_port) == (role, POD_IP, 5601)
    assert told.peers_file == Path("/etc/tandem/peers/peers.json")
    assert told.keys_file == Path("/etc/tandem/keys/exchange.json")


@pytest.mark.parametrize(
    ("field", "value", "setting", "meaning"),
    [
        ("disaggregateAboveTokens", 0, "disaggregate_above_tokens", 0),
        ("reverse", "Fetch", "reverse", Reverse.FETCH),
        ("deadline", "30m", "patience", 1800.0),
        ("landingFraction", "100%", "landing_share", 1.0),
        ("landingFraction", "7%", "landing_share", 0.07),
        ("minBlocks", 1, "fetch_min_blocks", 1),
    ],
)
def test_each_field_has_its_setting(field: str, value: Any, setting: str, meaning: Any) -> None:
    assert getattr(settings(a_resource().with_spec("transfer", field, value=value)), setting) == meaning


def test_the_backend_is_the_instance_types() -> None:
    assert settings(a_resource().on("p5en.48xlarge").with_tensor(8)).backends == ("LIBFABRIC",)


def test_numbers_and_lists_are_written_as_vllm_reads_them_on_its_command_line() -> None:
    arguments = transfer_arguments(resolve(a_resource().build(), DEFAULTS))
    assert "--kv-transfer-config.kv_connector_extra_config.landing_share=0.25" in arguments
    assert "--kv-transfer-config.kv_connector_extra_config.backends+=UCX" in arguments
