# SPDX-License-Identifier: Apache-2.0
"""Dockerfiles are what the declarations make of them."""

from dataclasses import replace
from pathlib import Path

from e2e.images.catalogue import CONNECTOR_INIT, FRONT_DOOR, OPERATOR, WITH_DOCKERFILE
from e2e.images.declaration import Image
from e2e.images.dockerfile import dockerfiles, drifted, write_dockerfiles


def dockerfile(image: Image) -> str:
    return dockerfiles(image)[f"{image.name}.Dockerfile"]


def test_those_in_the_repository_are_up_to_date() -> None:
    assert drifted(WITH_DOCKERFILE) == [], "run: python -m e2e.images dockerfiles"


def test_a_changed_declaration_is_noticed(tmp_path: Path) -> None:
    write_dockerfiles([OPERATOR], tmp_path)

    assert drifted([OPERATOR], tmp_path) == []
    assert drifted([replace(OPERATOR, user=1)], tmp_path) == ["operator.Dockerfile"]


def test_an_edited_a_missing_and_a_foreign_file_are_noticed(tmp_path: Path) -> None:
    write_dockerfiles([OPERATOR, FRONT_DOOR], tmp_path)
    (tmp_path / "operator.Dockerfile").write_text("FROM scratch\n")
    (tmp_path / "front-door.Dockerfile").unlink()
    (tmp_path / "other.Dockerfile").write_text("")

    assert drifted([OPERATOR, FRONT_DOOR], tmp_path) == [
        "front-door.Dockerfile",
        "operator.Dockerfile",
        "other.Dockerfile",
    ]


def test_user_entry_point_and_packages_are_the_declared_ones() -> None:
    lines = dockerfile(FRONT_DOOR).splitlines()

    assert "USER 65532:65532" in lines
    assert 'ENTRYPOINT ["vllm-router"]' in lines
    assert " && apt-get install --yes --no-install-recommends python3.11 libstdc++6 \\" in lines


def test_the_operator_is_built_from_the_lock_file_with_hashes() -> None:
    text = dockerfile(OPERATOR)

    assert "uv export --quiet --frozen" in text
    assert "--require-hashes" in text


def test_the_connector_comes_without_what_the_engine_has() -> None:
    assert "uv export" not in dockerfile(CONNECTOR_INIT)


def test_the_build_context_is_what_the_file_copies() -> None:
    ignored = dockerfiles(OPERATOR)["operator.Dockerfile.dockerignore"].splitlines()
    copied = [
        line.split()[1] for line in dockerfile(OPERATOR).splitlines() if line.startswith("COPY ") and "<<" not in line
    ]

    assert ignored[0] == "*"
    assert [f"!{source}" for source in copied if not source.startswith("--")] == [
        line for line in ignored if line.startswith("!")
    ]
