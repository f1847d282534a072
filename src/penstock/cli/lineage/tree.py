"""Lineage as a tree in the terminal."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.terminal import colours_wanted, visible

if TYPE_CHECKING:
    from rich.text import Text
    from rich.tree import Tree

    from penstock.lineage.graph import Edge, Graph

_MOST_LINES = 2000
_WAYS = {"from": "comes from", "to": "goes to"}


def print_tree(graph: "Graph", start: str, title: str, ways: Sequence[str]) -> int:
    """Print where something comes from and what is made from it; return the number of nodes.

    What was shown above is not shown again, so a cycle ends.
    """
    from rich.console import Console
    from rich.text import Text
    from rich.tree import Tree

    shown: set[str] = set()
    tree = Tree(Text(visible(title), style="bold"), guide_style="dim")
    for way in ways:
        branch = tree
        if len(ways) > 1:
            branch = tree.add(Text(_WAYS[way], style="italic"))
        seen = {start, *graph.same.get(start, ())}
        for begin in sorted(seen):
            if begin != start:
                branch.add(_line(graph, begin, "the same data"))
            _grow(graph, branch, begin, way, seen)
        shown |= seen
        if not branch.children:
            found = "nothing that is known" if len(ways) > 1 else f"{_WAYS[way]} nothing that is known"
            branch.add(Text(found, style="dim"))
    console = Console(
        highlight=False,
        soft_wrap=True,
        no_color=not (sys.stdout.isatty() and colours_wanted()),
        width=None if sys.stdout.isatty() else 10_000,
    )
    console.print(tree)
    return len(shown) - 1


def _grow(graph: "Graph", branch: "Tree", key: str, way: str, seen: set[str]) -> None:
    """Add everything behind a node; bounded, because nobody reads thousands of lines."""
    from rich.text import Text

    waiting = [(branch, key)]
    while waiting:
        at, here = waiting.pop(0)
        for edge in _edges(graph, here, way):
            other = edge.source if way == "from" else edge.target
            if len(seen) > _MOST_LINES:
                at.add(Text("and more: ask for less depth or time", style="dim"))
                return
            if other in seen:
                at.add(_line(graph, other, f"{edge.label}; shown above"))
                continue
            seen.add(other)
            child = at.add(_line(graph, other, edge.label))
            waiting.append((child, other))
            for name in graph.same.get(other, ()):
                if name not in seen:
                    seen.add(name)
                    waiting.append((child.add(_line(graph, name, "the same data")), name))


def _edges(graph: "Graph", key: str, way: str) -> "list[Edge]":
    edges = (graph.before if way == "from" else graph.after).get(key, [])
    return sorted(edges, key=lambda edge: (edge.source, edge.target))


def _line(graph: "Graph", key: str, label: str) -> "Text":
    from rich.text import Text

    node = graph.nodes[key]
    style = "cyan" if node.kind == "DATASET" else "yellow"
    return Text.assemble(
        (visible(node.name), style), (f"  {visible(node.detail)}", "dim"), (f"  {label}" if label else "", "dim")
    )
