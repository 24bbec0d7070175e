# SPDX-License-Identifier: Apache-2.0
"""An explanation as a tree of causes."""

from collections.abc import Iterable

from rich.text import Text
from rich.tree import Tree

from tandem_operator.kubectl.views.cause import Cause
from tandem_operator.kubectl.views.explain import Explanation


def explanation_tree(explanation: Explanation) -> Tree:
    """What it is, because of what, and the command to go on with."""
    words, style = ("is ready", "green") if explanation.ready else ("is not ready", "bold red")
    head = Text.assemble(
        (f"{explanation.namespace}/{explanation.name} ", "bold"),
        (words, style),
        f": {explanation.reason}: {explanation.message}",
    )
    tree = Tree(head)
    _add(tree, explanation.causes)
    for unread in explanation.unread:
        tree.add(Text(f"not read: {unread}", style="yellow"))
    if explanation.next:
        tree.add(Text.assemble(("next: ", "bold"), (explanation.next, "cyan")))
    return tree


def _add(tree: Tree, causes: Iterable[Cause]) -> None:
    for cause in causes:
        line = Text.assemble((cause.subject, "bold"), ": ", (cause.reason, "yellow"), f": {cause.message}")
        _add(tree.add(line), cause.because)
