# SPDX-License-Identifier: Apache-2.0
"""The CustomResourceDefinitions, generated from the models, and the command that writes everything generated from them.

`python -m tandem_operator.api.crd write` writes, `... check` says what differs and exits with 1 when something does.
"""

import argparse
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tandem_operator.api import names
from tandem_operator.api.base import ApiModel
from tandem_operator.api.reference import api_reference, conditions_reference, scaler_reference
from tandem_operator.api.resource import DisaggregatedInference
from tandem_operator.api.scaler import SCALE_PATHS, DisaggregatedInferenceScaler
from tandem_operator.api.schema import Schema, structural_schema
from tandem_operator.api.text import as_yaml

HEADER: Final = """\
# SPDX-License-Identifier: Apache-2.0
# Generated from operator/src/tandem_operator/api by `make generate`. Do not edit.
"""


@dataclass(frozen=True)
class Definition:
    """What a CustomResourceDefinition says of one kind, besides its schema."""

    model: type[ApiModel]
    kind: str
    plural: str
    singular: str
    short_name: str
    columns: tuple[Mapping[str, Any], ...]
    """Columns of `kubectl get`."""
    scale: Mapping[str, str] | None = None
    """Paths of the scale subresource, where there is one."""

    @property
    def name(self) -> str:
        """Name of the CustomResourceDefinition."""
        return f"{self.plural}.{names.GROUP}"

    def schema(self) -> Schema:
        """Schema of the whole resource.

        `metadata` is only an object in it: the API server knows ObjectMeta itself and lets a CRD say nothing else there.
        """
        schema = structural_schema(self.model)
        schema["properties"] |= {
            "apiVersion": {"description": f"Always {names.API_VERSION}.", "type": "string"},
            "kind": {"description": f"Always {self.kind}.", "type": "string"},
            "metadata": {"type": "object"},
        }
        schema["required"] = ["spec"]
        return schema

    def manifest(self) -> dict[str, Any]:
        """The CustomResourceDefinition as a Kubernetes object."""
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": self.name},
            "spec": {
                "group": names.GROUP,
                "names": {
                    "kind": self.kind,
                    "listKind": f"{self.kind}List",
                    "plural": self.plural,
                    "singular": self.singular,
                    "shortNames": [self.short_name],
                    "categories": [names.CATEGORY],
                },
                "scope": "Namespaced",
                "versions": [
                    {
                        "name": names.VERSION,
                        "served": True,
                        "storage": True,
                        "additionalPrinterColumns": [dict(column) for column in self.columns],
                        "subresources": {"status": {}, **({"scale": dict(self.scale)} if self.scale else {})},
                        "schema": {"openAPIV3Schema": self.schema()},
                    }
                ],
            },
        }


RESOURCE: Final = Definition(
    model=DisaggregatedInference,
    kind=names.KIND,
    plural=names.PLURAL,
    singular=names.SINGULAR,
    short_name=names.SHORT_NAME,
    columns=(
        {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
        {
            "name": "Prefill",
            "type": "integer",
            "jsonPath": ".status.prefill.ready",
            "description": "Ready prefill engines.",
        },
        {
            "name": "Decode",
            "type": "integer",
            "jsonPath": ".status.decode.ready",
            "description": "Ready decode engines.",
        },
        {
            "name": "Verified",
            "type": "string",
            "jsonPath": '.status.conditions[?(@.type=="KVTransferVerified")].status',
            "description": "Whether it was shown that KV moves.",
        },
        {"name": "Model", "type": "string", "jsonPath": ".spec.model.name", "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ),
)

SCALER: Final = Definition(
    model=DisaggregatedInferenceScaler,
    kind=names.SCALER_KIND,
    plural=names.SCALER_PLURAL,
    singular=names.SCALER_SINGULAR,
    short_name=names.SCALER_SHORT_NAME,
    columns=(
        {"name": "Asked", "type": "integer", "jsonPath": ".spec.replicas", "description": "Engines asked for."},
        {"name": "Engines", "type": "integer", "jsonPath": ".status.replicas", "description": "Engines that exist."},
        {
            "name": "Ready",
            "type": "integer",
            "jsonPath": ".status.readyReplicas",
            "description": "Engines that take requests.",
        },
        {
            "name": "Limited",
            "type": "string",
            "jsonPath": '.status.conditions[?(@.type=="ScalingLimited")].reason',
            "description": "Why another number is given than was asked for.",
            "priority": 1,
        },
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ),
    scale=SCALE_PATHS,
)

DEFINITIONS: Final = (RESOURCE, SCALER)
"""All that Tandem defines."""


def manifest(definition: Definition) -> str:
    """The definition as the YAML text of crds/."""
    return f"{HEADER}---\n{as_yaml(definition.manifest())}"


def chart_template() -> str:
    """The definitions as a template of the Helm chart.

    A template and not a file of the chart's crds/ folder, since Helm never upgrades those. `crds.keep` lets the definitions,
    and with them all resources, outlive `helm uninstall`.
    """
    keep = "  {{- if .Values.crds.keep }}\n  annotations:\n    helm.sh/resource-policy: keep\n  {{- end }}\n"
    texts = []
    for definition in DEFINITIONS:
        crd = definition.manifest()
        head = as_yaml({key: crd[key] for key in ("apiVersion", "kind", "metadata")})
        body = as_yaml({"spec": crd["spec"]})
        if "{{" in head + body:
            raise ValueError("the definition has `{{`, which Helm would take for a template's action")
        texts.append(f"---\n{head}{keep}{body}")
    return f"{{{{- if .Values.crds.enabled }}}}\n{HEADER}{''.join(texts)}{{{{- end }}}}\n"


def generated_files() -> dict[Path, str]:
    """Everything that is generated from the models, by path from the repository's root."""
    return {
        **{Path("crds", f"{names.GROUP}_{each.plural}.yaml"): manifest(each) for each in DEFINITIONS},
        Path("charts/tandem/templates/crds.yaml"): chart_template(),
        Path("docs/reference/api.md"): api_reference(RESOURCE.schema()),
        Path("docs/reference/scaler.md"): scaler_reference(SCALER.schema()),
        Path("docs/reference/conditions.md"): conditions_reference(),
    }


def main(arguments: list[str] | None = None) -> int:
    """Write or check the generated files under the repository's root. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tandem_operator.api.crd", description=main.__doc__)
    parser.add_argument("action", choices=("write", "check"))
    parser.add_argument("--root", type=Path, default=Path(), help="the repository's root (default: the current folder)")
    chosen = parser.parse_args(arguments)
    if not (chosen.root / "crds").is_dir():
        parser.error(f"{chosen.root.absolute()} has no folder crds: run this in the repository's root, or give --root")
    differing = {path: text for path, text in generated_files().items() if _read(chosen.root / path) != text}
    for path, text in differing.items():
        print(f"{'written' if chosen.action == 'write' else 'differs from the models'}: {path}")
        if chosen.action == "write":
            _write(chosen.root / path, text)
    if chosen.action == "check" and differing:
        print("run `make generate` and commit the result", file=sys.stderr)
        return 1
    return 0


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
