# SPDX-License-Identifier: Apache-2.0
"""A diagnosis: a table of nodes, and what was found with its remedy."""

from typing import Final

from rich.console import Group
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from tandem_operator.kubectl.views.doctor import Diagnosis
from tandem_operator.kubectl.views.finding import Severity

_STYLES: Final = {Severity.FAULT: "bold red", Severity.WARNING: "yellow", Severity.HINT: "cyan"}


def diagnosis_of(diagnosis: Diagnosis) -> Group:
    """What is offered, what is wrong, what to do."""
    nodes = Table("node", "type", "ready", "zone", "GPUs", "EFA", "huge pages", box=None, pad_edge=False)
    for node in diagnosis.nodes:
        words = (node.instance_type, "yes" if node.ready else "no", node.zone or "-", node.gpus, node.efas)
        nodes.add_row(node.name, *words, f"{node.hugepages_mebibytes}Mi")
    findings = Tree(_summary(diagnosis))
    for found in diagnosis.findings:
        severity = (found.severity.value, _STYLES[found.severity])
        branch = findings.add(Text.assemble(severity, " ", (found.subject, "bold"), f": {found.message}"))
        branch.add(Text.assemble(("do: ", "dim"), found.remedy))
        if found.command:
            branch.add(Text(found.command, style="cyan"))
    for unread in diagnosis.unread:
        findings.add(Text(f"not read: {unread}", style="yellow"))
    return Group(nodes, Text(), findings) if diagnosis.nodes else Group(findings)


def _summary(diagnosis: Diagnosis) -> Text:
    faults = sum(each.severity is Severity.FAULT for each in diagnosis.findings)
    if faults:
        return Text(f"{faults} faults" if faults > 1 else "1 fault", style="bold red")
    return Text("no faults", style="green")
