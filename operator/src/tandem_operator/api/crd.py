# SPDX-License-Identifier: Apache-2.0
"""The CustomResourceDefinition, generated from the models, and the command that writes everything generated from them.

`python -m tandem_operator.api.crd write` writes, `... check` says what differs and exits with 1 when something does.
"""

import argparse
import sys
from pathlib import Path
from typing import Any, Final

from tandem_operator.api import names
from tandem_operator.api.reference import api_reference, conditions_reference
from tandem_operator.api.resource import DisaggregatedInference
from tandem_operator.api.schema import Schema, structural_schema
from tandem_operator.api.text import as_yaml

CRD_NAME: Final = f"{names.PLURAL}.{names.GROUP}"

HEADER: Final = """\
# SPDX-License-Identifier: Apache-2.0
# Generated from operator/src/tandem_operator/api by `make generate`. Do not edit.
"""

PRINTER_COLUMNS: Final = (
    {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
    {
        "name": "Prefill",
        "type": "integer",
        "jsonPath": ".status.prefill.ready",
        "description": "Ready prefill engines.",
    },
    {"name": "Decode", "type": "integer", "jsonPath": ".status.decode.ready", "description": "Ready decode engines."},
    {"name": "Model", "type": "string", "jsonPath": ".spec.model.name", "priority": 1},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
)


def resource_schema() -> Schema:
    """Schema of the whole resource.

    `metadata` is only an object in it: the API server knows ObjectMeta itself and lets a CRD say nothing else there.
    """
    schema = structural_schema(DisaggregatedInference)
    schema["properties"] |= {
        "apiVersion": {"description": "Always tandem.dev/v1alpha1.", "type": "string"},
        "kind": {"description": "Always DisaggregatedInference.", "type": "string"},
        "metadata": {"type": "object"},
    }
    schema["required"] = ["spec"]
    return schema


def definition() -> dict[str, Any]:
    """The CustomResourceDefinition as a Kubernetes object."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": CRD_NAME},
        "spec": {
            "group": names.GROUP,
            "names": {
                "kind": names.KIND,
                "listKind": f"{names.KIND}List",
                "plural": names.PLURAL,
                "singular": names.SINGULAR,
                "shortNames": [names.SHORT_NAME],
                "categories": [names.CATEGORY],
            },
            "scope": "Namespaced",
            "versions": [
                {
                    "name": names.VERSION,
                    "served": True,
                    "storage": True,
                    "additionalPrinterColumns": list(PRINTER_COLUMNS),
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": resource_schema()},
                }
            ],
        },
    }


def manifest() -> str:
    """The definition as the YAML text of crds/."""
    return f"{HEADER}---\n{as_yaml(definition())}"


def chart_template() -> str:
    """The definition as a template of the Helm chart.

    A template and not a file of the chart's crds/ folder, since Helm never upgrades those. `crds.keep` lets the definition,
    and with it all resources, outlive `helm uninstall`.
    """
    crd = definition()
    head = as_yaml({key: crd[key] for key in ("apiVersion", "kind", "metadata")})
    body = as_yaml({"spec": crd["spec"]})
    if "{{" in head + body:
        raise ValueError("the definition has `{{`, which Helm would take for a template's action")
    keep = "  {{- if .Values.crds.keep }}\n  annotations:\n    helm.sh/resource-policy: keep\n  {{- end }}\n"
    return f"{{{{- if .Values.crds.enabled }}}}\n{HEADER}---\n{head}{keep}{body}{{{{- end }}}}\n"


def generated_files() -> dict[Path, str]:
    """Everything that is generated from the models, by path from the repository's root."""
    return {
        Path("crds", f"{names.GROUP}_{names.PLURAL}.yaml"): manifest(),
        Path("charts/tandem/templates/crds.yaml"): chart_template(),
        Path("docs/reference/api.md"): api_reference(resource_schema()),
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
