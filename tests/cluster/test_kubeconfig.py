# SPDX-License-Identifier: Apache-2.0
"""The user's own cluster: nothing of it is changed, and what can't be done is said."""

from pathlib import Path

import pytest

from e2e.cluster.interface import ClusterError
from e2e.cluster.kubeconfig import KubeconfigCluster

ARCHIVE = Path("/images/operator.tar")


def test_the_first_file_of_the_environment_is_used() -> None:
    assert KubeconfigCluster.of_environment({"KUBECONFIG": "/one:/two"}).kubeconfig == Path("/one")
    assert KubeconfigCluster.of_environment({}).kubeconfig == Path.home() / ".kube" / "config"


def test_an_image_is_refused_with_what_to_do_instead() -> None:
    with pytest.raises(ClusterError, match=r"operator.tar .* push the images to a registry .* TANDEM_IMAGES_PRESENT=1"):
        KubeconfigCluster.of_environment({}).load_image(ARCHIVE)


def test_nothing_is_loaded_where_the_user_says_that_the_images_are_present() -> None:
    KubeconfigCluster.of_environment({"TANDEM_IMAGES_PRESENT": "1"}).load_image(ARCHIVE)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=f"no kubeconfig at {tmp_path}/none: set KUBECONFIG"):
        KubeconfigCluster(tmp_path / "none").up()


def test_a_cluster_that_does_not_answer_is_reported_with_the_words_of_kubectl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubectl = tmp_path / "kubectl"
    kubectl.write_text("#!/bin/sh\necho no route to it >&2\nexit 1\n")
    kubectl.chmod(0o755)
    (tmp_path / "config").touch()
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    with pytest.raises(ClusterError, match="no route to it"):
        KubeconfigCluster(tmp_path / "config").up()
