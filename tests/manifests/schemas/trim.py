# SPDX-License-Identifier: Apache-2.0
"""Takes the schemas in this folder from checkouts of their projects, without what no check needs.

`python tests/manifests/schemas/trim.py FOLDER`, with a checkout of each project in FOLDER under the name of its repository.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any, Final

import yaml

TAKEN: Final = {
    "karpenter-provider-aws/pkg/apis/crds/karpenter.k8s.aws_ec2nodeclasses.yaml": "v1",
    "karpenter-provider-aws/pkg/apis/crds/karpenter.sh_nodepools.yaml": "v1",
    "karpenter-provider-aws/pkg/apis/crds/karpenter.sh_nodeoverlays.yaml": "v1alpha1",
    "keda/config/crd/bases/keda.sh_scaledobjects.yaml": "v1alpha1",
    "gateway-api/config/crd/standard/gateway.networking.k8s.io_httproutes.yaml": "v1",
    "gateway-api-inference-extension/config/crd/bases/inference.networking.k8s.io_inferencepools.yaml": "v1",
    "argo-cd/manifests/crds/application-crd.yaml": "v1alpha1",
    "prometheus-operator/example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml": "v1",
    "prometheus-operator/example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml": "v1",
}
"""Definitions of custom resources, and the version that is kept."""
EKSCTL: Final = "eksctl/pkg/apis/eksctl.io/v1alpha5/assets/schema.json"
TERRAFORM: Final = "terraform-aws-eks/variables.tf"
_PROSE: Final = ("description", "x-intellij-html-description", "preferredOrder", "examples")
_APPROVED: Final = "api-approved.kubernetes.io"
"""Without this annotation no server takes a definition of a group under k8s.io."""


def main() -> None:
    """Write all of them."""
    checkouts, folder = Path(sys.argv[1]), Path(__file__).parent
    for path, version in TAKEN.items():
        trimmed = definition(yaml.safe_load((checkouts / path).read_text()), version)
        write(folder / f"{trimmed['metadata']['name']}.json", trimmed)
    write(folder / "eksctl.json", reachable(bare(json.loads((checkouts / EKSCTL).read_text()))))
    write(folder / "terraform-aws-eks.json", variables((checkouts / TERRAFORM).read_text()))


def write(path: Path, value: Any) -> None:
    """As JSON that shows what a change changed."""
    path.write_text(json.dumps(value, indent=1, sort_keys=True) + "\n")


def definition(whole: dict[str, Any], version: str) -> dict[str, Any]:
    """One version of a CustomResourceDefinition, without its status and without prose."""
    (kept,) = [each for each in whole["spec"]["versions"] if each["name"] == version]
    schema = bare(kept["schema"]["openAPIV3Schema"])
    schema["properties"].pop("status", None)
    schema["required"] = [each for each in schema.get("required", ()) if each != "status"]
    annotations = {key: value for key, value in whole["metadata"].get("annotations", {}).items() if key == _APPROVED}
    return {
        "apiVersion": whole["apiVersion"],
        "kind": whole["kind"],
        "metadata": {"name": whole["metadata"]["name"], **({"annotations": annotations} if annotations else {})},
        "spec": {
            **{key: whole["spec"][key] for key in ("group", "names", "scope")},
            "versions": [{"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def bare(schema: Any, *, names: bool = False) -> Any:
    """A schema without prose and defaults; `names`: of properties, which may be called as the prose is."""
    if isinstance(schema, list):
        return [bare(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    named = ("properties", "definitions")
    return {
        key: bare(value, names=key in named and not names)
        for key, value in schema.items()
        if names or key not in _PROSE
    }


def reachable(schema: dict[str, Any]) -> dict[str, Any]:
    """Only those definitions that the root leads to."""
    found: set[str] = set()
    waiting = [schema["$ref"]]
    while waiting:
        name = waiting.pop().removeprefix("#/definitions/")
        if name not in found:
            found.add(name)
            waiting.extend(references(schema["definitions"][name]))
    return {**schema, "definitions": {name: schema["definitions"][name] for name in found}}


def variables(text: str) -> dict[str, list[str]]:
    """Names of a Terraform module's variables, and of what its managed node groups may have."""
    group = text[text.index('variable "eks_managed_node_groups"') :]
    group = group[: group.index("\n}\n")]
    return {
        "module": sorted(re.findall(r'^variable "(\w+)"', text, re.MULTILINE)),
        "eks_managed_node_groups": sorted(re.findall(r"^    (\w+) += optional", group, re.MULTILINE)),
    }


def references(schema: Any) -> list[str]:
    """Everything that is pointed at from within a schema."""
    if isinstance(schema, list):
        return [each for value in schema for each in references(value)]
    if not isinstance(schema, dict):
        return []
    here = [schema["$ref"]] if isinstance(schema.get("$ref"), str) else []
    return here + [each for value in schema.values() for each in references(value)]


if __name__ == "__main__":
    main()
