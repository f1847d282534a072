"""Where the nodes of a picture stand: in layers from left to right, in the way data go, with few crossings."""

from collections import defaultdict
from dataclasses import dataclass

from penstock.lineage.graph import Graph

_SWEEPS = 6
COLUMN_GAP = 90.0
ROW_GAP = 18.0
NODE_HEIGHT = 46.0
_CHARACTER = 7.2
_PADDING = 20.0
_NARROWEST = 120.0
MOST_CHARACTERS = 44


@dataclass(frozen=True)
class Box:
    """A node in a picture."""

    key: str
    x: float
    y: float
    width: float


@dataclass(frozen=True)
class Layout:
    """All boxes, and the size of the whole."""

    boxes: dict[str, Box]
    width: float
    height: float


def lay_out(graph: Graph) -> Layout:
    """Place every node; the same graph always gives the same picture."""
    layers = _ordered(graph, _layers(graph))
    widths = [
        max([_NARROWEST, *(_width(graph.nodes[key].name, graph.nodes[key].detail) for key in layer)])
        for layer in layers
    ]
    tallest = max((len(layer) for layer in layers), default=0)
    height = tallest * (NODE_HEIGHT + ROW_GAP) + ROW_GAP
    boxes: dict[str, Box] = {}
    x = ROW_GAP
    for layer, width in zip(layers, widths, strict=True):
        y = (height - len(layer) * (NODE_HEIGHT + ROW_GAP) + ROW_GAP) / 2
        for number, key in enumerate(layer):
            boxes[key] = Box(key, x, y + number * (NODE_HEIGHT + ROW_GAP), width)
        x += width + COLUMN_GAP
    return Layout(boxes, max(x - COLUMN_GAP + ROW_GAP, _NARROWEST), max(height, NODE_HEIGHT + 2 * ROW_GAP))


def shortened(text: str) -> str:
    """Return a text that fits into a box; the end of a path says more than its middle."""
    if len(text) <= MOST_CHARACTERS:
        return text
    half = MOST_CHARACTERS // 2
    return f"{text[: half - 1]}…{text[-half:]}"


def _width(*lines: str) -> float:
    return max(len(shortened(line)) for line in lines) * _CHARACTER + _PADDING


def _layers(graph: Graph) -> dict[str, int]:
    """Return the layer of each node: behind all that it comes from. Edges that close a cycle do not count."""
    forward = _without_cycles(graph)
    missing: dict[str, int] = dict.fromkeys(graph.nodes, 0)
    for targets in forward.values():
        for target in targets:
            missing[target] += 1
    layer = dict.fromkeys(graph.nodes, 0)
    ready = [key for key, count in missing.items() if count == 0]
    while ready:
        key = ready.pop()
        for target in forward[key]:
            layer[target] = max(layer[target], layer[key] + 1)
            missing[target] -= 1
            if missing[target] == 0:
                ready.append(target)
    for key in graph.nodes:  # what only begins something stands right before it
        if not graph.before.get(key) and forward[key]:
            layer[key] = min(layer[target] for target in forward[key]) - 1
    return layer


def _without_cycles(graph: Graph) -> dict[str, set[str]]:
    """Return the edges, without those that lead back to where a walk came from. No recursion: chains may be long."""
    forward: dict[str, set[str]] = defaultdict(set)
    done: set[str] = set()
    for start in graph.nodes:
        path: list[tuple[str, list[str]]] = []
        on_path: set[str] = set()
        if start not in done:
            path.append((start, [edge.target for edge in graph.after.get(start, ())]))
            on_path.add(start)
        while path:
            key, rest = path[-1]
            if not rest:
                path.pop()
                on_path.discard(key)
                done.add(key)
                continue
            target = rest.pop()
            if target in on_path:
                continue
            forward[key].add(target)
            if target not in done:
                path.append((target, [edge.target for edge in graph.after.get(target, ())]))
                on_path.add(target)
    return forward


def _ordered(graph: Graph, layer_of: dict[str, int]) -> list[list[str]]:
    """Return the layers, each in an order in which neighbours are near each other."""
    layers: dict[int, list[str]] = defaultdict(list)
    for key in sorted(graph.nodes, key=lambda each: (graph.nodes[each].name, each)):
        layers[layer_of[key]].append(key)
    ordered = [layers[number] for number in sorted(layers)]
    beside: dict[str, list[str]] = defaultdict(list)
    for edge in graph.edges:
        beside[edge.source].append(edge.target)
        beside[edge.target].append(edge.source)
    place = {key: float(number) for layer in ordered for number, key in enumerate(layer)}
    for sweep in range(_SWEEPS):
        for layer in ordered if sweep % 2 == 0 else reversed(ordered):
            middle = {
                key: sum(place[each] for each in beside[key]) / len(beside[key]) if beside[key] else place[key]
                for key in layer
            }
            layer.sort(key=lambda key: (middle[key], graph.nodes[key].name, key))
            place.update({key: float(number) for number, key in enumerate(layer)})
    return ordered
