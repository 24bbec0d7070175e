# SPDX-License-Identifier: Apache-2.0
"""Where settings come from, and what is said of wrong ones."""

from pathlib import Path

import pytest

from tandem_connector.contract.reverse import Reverse
from tandem_connector.contract.types import Role
from tandem_connector.exchange.liveness import DEFAULTS as LIVENESS
from tandem_connector.vllm.settings import ConnectorSettings, SettingsError, exposable


def test_an_engine_that_is_told_nothing_listens_on_loopback_and_has_no_peers() -> None:
    settings = ConnectorSettings.of({}, {})
    assert (settings.listen_host, settings.listen_port) == ("127.0.0.1", 5600)
    assert (settings.peers_file, settings.role) == (None, None)


def test_what_the_operator_sets_on_the_pod_is_taken() -> None:
    settings = ConnectorSettings.of(
        {},
        {
            "TANDEM_ROLE": "decode",
            "TANDEM_PEERS_FILE": "/etc/tandem/peers/peers.json",
            "TANDEM_KEYS_FILE": "/etc/tandem/keys/exchange.json",
            "VLLM_NIXL_SIDE_CHANNEL_HOST": "fd00::7",
            "VLLM_NIXL_SIDE_CHANNEL_PORT": "5601",
        },
    )
    assert settings.role is Role.DECODE
    assert settings.peers_file == Path("/etc/tandem/peers/peers.json")
    assert (settings.listen_host, settings.listen_port) == ("fd00::7", 5601)


def test_a_journal_can_be_asked_for_by_a_variable_of_the_pod() -> None:
    assert ConnectorSettings.of({}, {"TANDEM_JOURNAL": "/journals/one"}).journal == Path("/journals/one")


def test_a_data_parallel_rank_has_a_port_and_files_of_its_own() -> None:
    told = {"VLLM_NIXL_SIDE_CHANNEL_PORT": "5601", "TANDEM_STATUS_FILE": "/run/status.json"}
    journal = {"journal": "/run/journal"}
    first, third = (ConnectorSettings.of(journal, told, rank) for rank in (0, 2))
    assert first == ConnectorSettings.of(journal, told)
    assert (first.listen_port, third.listen_port) == (5601, 5603)
    assert (first.status_file, third.status_file) == (Path("/run/status.json"), Path("/run/status.json.dp2"))
    assert (first.journal, third.journal) == (Path("/run/journal"), Path("/run/journal.dp2"))


def test_what_a_data_parallel_rank_is_not_told_it_has_not() -> None:
    settings = ConnectorSettings.of({"listen_port": 0}, {}, 3)
    assert (settings.listen_port, settings.status_file, settings.journal) == (0, None, None)


def test_a_data_parallel_rank_without_a_port_is_named() -> None:
    with pytest.raises(SettingsError, match="no port for data-parallel rank 1"):
        ConnectorSettings.of({}, {"VLLM_NIXL_SIDE_CHANNEL_PORT": "65535"}, 1)


def test_extra_config_wins_over_variables() -> None:
    settings = ConnectorSettings.of({"role": "prefill", "reverse": "Push"}, {"TANDEM_ROLE": "decode"})
    assert (settings.role, settings.reverse) == (Role.PREFILL, Reverse.PUSH)


def test_an_empty_variable_is_as_good_as_none() -> None:
    assert ConnectorSettings.of({}, {"TANDEM_PEERS_FILE": ""}).peers_file is None


@pytest.mark.parametrize(
    ("extra", "environment", "named"),
    [
        ({"revers": "Push"}, {}, "kv_connector_extra_config.revers"),
        ({"reverse": "push"}, {}, "kv_connector_extra_config.reverse"),
        ({"landing_share": 1.5}, {}, "kv_connector_extra_config.landing_share"),
        ({"backends": []}, {}, "kv_connector_extra_config.backends"),
        ({}, {"VLLM_NIXL_SIDE_CHANNEL_HOST": "decode-0.svc"}, "VLLM_NIXL_SIDE_CHANNEL_HOST"),
        ({}, {"TANDEM_ROLE": "both"}, "TANDEM_ROLE"),
        ({}, {"TANDEM_PEERS_FILE": "/peers.json"}, "TANDEM_ROLE"),
    ],
)
def test_what_is_wrong_is_named(extra: dict[str, object], environment: dict[str, str], named: str) -> None:
    with pytest.raises(SettingsError, match=named):
        ConnectorSettings.of(extra, environment)


def test_all_that_is_wrong_is_named_at_once() -> None:
    with pytest.raises(SettingsError, match=r"patience.*offer_every"):
        ConnectorSettings.of({"offer_every": -1, "patience": 0}, {})


@pytest.mark.parametrize("silent_after", [0.5, 5.0, 15.0, 120.0])
def test_blocks_are_held_for_longer_than_an_engine_that_has_left_the_table_may_go_on_writing(
    silent_after: float,
) -> None:
    settings = ConnectorSettings.of({"silent_after": silent_after}, {})
    assert settings.transport_bound > silent_after + LIVENESS.interval
    assert settings.transport_bound >= 10.0


@pytest.mark.parametrize(("pool", "longest", "exposed"), [(10_000, 2_000, 7_999), (256, 128, 128), (130, 128, 65)])
def test_peers_may_write_into_all_but_what_one_request_of_the_greatest_length_takes(
    pool: int, longest: int, exposed: int
) -> None:
    assert exposable(pool, longest) == exposed


def test_an_api_key_is_not_shown() -> None:
    settings = ConnectorSettings.of({}, {"VLLM_API_KEY": "hush-hush"})
    assert settings.api_key == "hush-hush"
    assert "hush" not in repr(settings)
