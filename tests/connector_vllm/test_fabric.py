# SPDX-License-Identifier: Apache-2.0
"""Over what KV goes, as an engine tells it."""

from pathlib import Path

from tandem_connector.vllm.fabric import Fabric, fabric_of


def test_with_libfabric_it_is_the_provider_that_is_pinned(tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / f"uverbs{number}").touch()
    (tmp_path / "rdma_cm").touch()
    assert fabric_of(["LIBFABRIC"], {"FI_PROVIDER": "efa"}, tmp_path) == Fabric("LIBFABRIC", "efa", 2)


def test_without_a_pinned_provider_it_is_none_since_libfabric_may_take_any(tmp_path: Path) -> None:
    assert fabric_of(["LIBFABRIC"], {}, tmp_path) == Fabric("LIBFABRIC", "", 0)


def test_ucx_has_no_provider_of_libfabric(tmp_path: Path) -> None:
    assert fabric_of(["UCX"], {"FI_PROVIDER": "efa"}, tmp_path / "absent") == Fabric("UCX", "", 0)
