# SPDX-License-Identifier: Apache-2.0
"""Every block of YAML in the documents is what an API server would take, and what the operator can act on."""

from typing import Any

import pytest
import yaml

from tandem_operator.api.names import API_VERSION, KIND
from tandem_operator.plan.errors import InvalidSpec
from tandem_operator.plan.plan import plan
from tests.builders import DEFAULTS, observed
from tests.builders.resources import UID, ResourceBuilder
from tests.documents.blocks import Block, all_blocks
from tests.manifests.checking import problems

Manifest = dict[str, Any]

LEAST: Manifest = {
    "model": {"name": "Qwen/Qwen3-32B"},
    "engine": {"image": "vllm/vllm-openai:v0.32.0"},
    "accelerator": {"instanceType": "p5en.48xlarge"},
    "prefill": {"parallelism": {"tensor": 8}},
    "decode": {"parallelism": {"tensor": 8}},
}
"""A resource's spec, over which a part of one is laid."""
ELSEWHERE = {
    ("kustomize.config.k8s.io/v1beta1", "Kustomization"): "tests/manifests/test_kustomize.py builds it",
    ("kustomize.toolkit.fluxcd.io/v1", "Kustomization"): "its page says that it is untried",
}
"""Kinds that are held to nothing here, and why that is well."""
BLOCKS = [block for block in all_blocks() if block.language in {"yaml", "yml"}]


def label(block: Block) -> str:
    return f"{block.page}:{block.line}"


def laid_over(base: Manifest, part: Manifest) -> Manifest:
    """Fields of both; where both have one, those of the part."""
    merged = dict(base)
    for key, value in part.items():
        both = isinstance(value, dict) and isinstance(base.get(key), dict)
        merged[key] = laid_over(base[key], value) if both else value
    return merged


def whole(document: Manifest) -> Manifest:
    """The object that is shown, or of which a part is: fields of a resource, or of its spec."""
    if "kind" in document:
        return document
    spec = document["spec"] if document.keys() == {"spec"} else document
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "qwen"}, "spec": laid_over(LEAST, spec)}


def faults(document: Manifest) -> list[str]:
    """What is wrong with it."""
    shown = whole(document)
    if (shown["apiVersion"], shown["kind"]) in ELSEWHERE:
        return []
    found = problems(shown)
    if shown["kind"] == KIND and not found:
        shown["metadata"] = {**shown["metadata"], "namespace": "models", "uid": UID, "generation": 1}
        try:
            plan(observed(ResourceBuilder(shown)), DEFAULTS)
        except InvalidSpec as error:
            return [str(error)]
    return found


def documents(block: Block) -> list[Manifest]:
    return [each for each in yaml.safe_load_all(block.text) if each]


@pytest.mark.parametrize("block", BLOCKS, ids=label)
def test_a_block_is_an_object_or_a_part_of_one_without_a_field_that_is_not_there(block: Block) -> None:
    assert [fault for each in documents(block) for fault in faults(each)] == []


def test_there_are_objects_parts_and_several_in_one_block() -> None:
    found = [each for block in BLOCKS for each in documents(block)]

    assert {"kind" in each for each in found} == {True, False}
    assert len(found) > len(BLOCKS) > 8


@pytest.mark.parametrize(
    "text",
    [
        "spec: {frontDor: {replicas: 2}}",
        "decode: {podTemplate: {sepc: {}}}",
        "{apiVersion: v1, kind: Secret, metadata: {name: a}, datum: {}}",
        "frontDoor: {replicas: two}",
        "wait: true",
    ],
)
def test_a_field_that_is_not_there_or_of_another_type_is_noticed(text: str) -> None:
    assert faults(yaml.safe_load(text))
