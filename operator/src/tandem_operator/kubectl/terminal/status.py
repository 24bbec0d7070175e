# SPDX-License-Identifier: Apache-2.0
"""A resource as a tree: roles, engines, pairs."""

from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from tandem_connector.contract.types import Role
from tandem_operator.api.status import RequestState
from tandem_operator.kubectl.terminal import marks
from tandem_operator.kubectl.views.engine import Engine
from tandem_operator.kubectl.views.status import ResourceView


def status_tree(view: ResourceView) -> Tree:
    """The tree of one resource."""
    tree = Tree(_head(view))
    tree.add(_conditions(view))
    if view.endpoint:
        door = view.front_door
        counts = f"  front door {door.available}/{door.replicas}" if door else ""
        tree.add(Text.assemble(("endpoint ", "dim"), view.endpoint, (counts, "dim")))
    revision = view.revision
    if revision.current:
        following = f" → {revision.next}" if revision.next else ""
        tree.add(Text.assemble(("revision ", "dim"), f"{revision.current}{following}"))
    for role in Role:
        branch = tree.add(_role(view, role))
        for engine in view.engines_of(role):
            _add_engine(branch, view, engine)
    for entry in view.quarantined:
        held = "out of use" if entry.uid else "on trial"
        tree.add(Text(f"quarantine {entry.pod}: {held}, {entry.reason}, {entry.restarts} restarts", style="red"))
    if asked := view.verification:
        style = "yellow" if asked.state is not RequestState.ANSWERED or asked.shown < asked.pairs else "default"
        tree.add(Text(f"verification asked for at {asked.since}: {asked.state}: {asked.message}", style=style))
    for words in view.unread:
        tree.add(Text(f"not read: {words}", style="yellow"))
    return tree


def _head(view: ResourceView) -> Text:
    words = "being deleted" if view.deleting else "ready" if view.ready else "not ready"
    style = "green" if view.ready and not view.deleting else "bold red"
    stale = "" if view.current else "  (the operator hasn't looked at its newest generation)"
    return Text.assemble(
        (f"{view.namespace}/{view.name}", "bold"), f"  {view.model}  ", (words, style), (stale, "yellow")
    )


def _conditions(view: ResourceView) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for each in view.conditions:
        table.add_row(each.type, marks.condition(each), each.reason, Text(each.message, style="dim"))
    return table


def _role(view: ResourceView, role: Role) -> Text:
    counts = view.counts_of(role)
    more = [f"{counts.ready}/{counts.replicas} ready"]
    if counts.updated != counts.replicas:
        more.append(f"{counts.updated} of the wanted revision")
    if counts.draining:
        more.append(f"{counts.draining} draining")
    return Text.assemble((str(role), "bold"), "  ", ", ".join(more))


def _add_engine(branch: Tree, view: ResourceView, engine: Engine) -> None:
    where = " ".join(filter(None, (engine.node or "no node", engine.zone)))
    words = [engine.revision, where]
    words += [f"{engine.ranks} ranks"] if engine.ranks > 1 else []
    words += [f"{engine.restarts} restarts"] if engine.restarts else []
    words += [f"table {engine.generation}"] if engine.generation is not None else ["no table"]
    words += [] if engine.takes_turns else ["takes no turns"]
    words += [engine.fabric] if engine.fabric else []
    words += [f"heir {engine.heir}"] if engine.heir else []
    line = Text.assemble(engine.pod, "  ", marks.state(engine.state), "  ", ("  ".join(words), "dim"))
    node = branch.add(line)
    if engine.trouble:
        node.add(Text(engine.trouble, style="red"))
    if engine.role is Role.DECODE:
        known = [pair for pair in view.pairs if pair.decode == engine.pod]
        if known:
            listed = [Text.assemble(marks.pair(pair.state), " ", pair.prefill) for pair in known]
            node.add(Text.assemble(("asks  ", "dim"), Text("   ").join(listed)))
        for pair in known:
            if pair.detail:
                node.add(Text(f"{pair.prefill}: {pair.reason}: {pair.detail}", style="dim"))
