"""Pictures of lineage: SVG by ourselves, PNG with matplotlib, which `penstock[lab]` brings."""

import io
from collections.abc import Callable
from xml.sax.saxutils import escape

from penstock.extras import require
from penstock.lineage.graph import Graph
from penstock.lineage.layout import NODE_HEIGHT, Box, Layout, lay_out, shortened
from penstock.terminal import visible

_FILL = {"DATASET": "#e8f1fb", "JOB": "#fdf0d9", "RUN": "#fdf0d9", "OPERATION": "#f3ecfb"}
_LINE = {"DATASET": "#3572b0", "JOB": "#b9770e", "RUN": "#b9770e", "OPERATION": "#7d4fb0"}
_EDGE = "#7a8794"
_INK = "#1f2933"
_POINTS_PER_INCH = 72
_BELOW = 22.0


def svg(graph: Graph, start: str, link: Callable[[str], str] | None = None) -> str:
    """Return a picture as SVG, which holds no script; names are only ever text in it.

    Links there are only where the caller has one for the key of each node. Classes are for pages that have styles.
    """
    layout = lay_out(graph)
    size = f'width="{layout.width:.0f}" height="{layout.height:.0f}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {layout.width:.0f} {layout.height:.0f}">',
        (
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
            f'<path d="M0 0L8 4L0 8z" fill="{_EDGE}"/></marker></defs>'
        ),
        f'<rect {size} class="back" fill="#ffffff"/>',
        f'<g fill="none" stroke="{_EDGE}" stroke-width="1.4">',
    ]
    for edge in graph.edges:
        source, target = layout.boxes[edge.source], layout.boxes[edge.target]
        lines.append(
            f'<path data-from="{_text(edge.source)}" data-to="{_text(edge.target)}" d="{_curve(source, target)}"'
            f' marker-end="url(#tip)"><title>{_text(edge.label)}</title></path>'
        )
    lines.append('</g><g font-family="ui-monospace, Menlo, Consolas, monospace" font-size="12">')
    for key, box in layout.boxes.items():
        node = graph.nodes[key]
        corner, weight = (6 if node.kind == "DATASET" else 22), (2.6 if key == start else 1.4)
        whole = _text(f"{node.kind} {node.name} ({node.detail})")
        place = f'x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{NODE_HEIGHT:.0f}" rx="{corner}"'
        colours = f'fill="{_FILL[node.kind]}" stroke="{_LINE[node.kind]}" stroke-width="{weight}"'
        x, first, second = f"{box.x + 10:.1f}", f"{box.y + 19:.1f}", f"{box.y + 36:.1f}"
        kind = f"node {node.kind.lower()}{' start' if key == start else ''}"
        begin, end = (f'<a href="{_text(link(key))}">', "</a>") if link is not None else ("", "")
        lines += [
            f'{begin}<g class="{kind}" data-key="{_text(key)}"><title>{whole}</title><rect {place} {colours}/>',
            f'<text x="{x}" y="{first}" fill="{_INK}">{_text(shortened(node.name))}</text>',
            f'<text x="{x}" y="{second}" fill="#5b6773" font-size="11">{_text(shortened(node.detail))}</text></g>{end}',
        ]
    lines.append("</g></svg>\n")
    return "\n".join(lines)


def png(graph: Graph, start: str) -> bytes:
    """Return a picture as PNG; raise `EnvironmentNotReady` where matplotlib is missing."""
    require("lab", "a PNG")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

    layout = lay_out(graph)
    figure = Figure(figsize=(layout.width / _POINTS_PER_INCH, layout.height / _POINTS_PER_INCH), dpi=_dpi(layout))
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, layout.width)
    axes.set_ylim(layout.height, 0)
    axes.axis("off")
    for edge in graph.edges:
        one, other = layout.boxes[edge.source], layout.boxes[edge.target]
        ends = (one.x + one.width, one.y + NODE_HEIGHT / 2), (other.x, other.y + NODE_HEIGHT / 2)
        axes.add_patch(FancyArrowPatch(*ends, arrowstyle="-|>", mutation_scale=10, color=_EDGE, shrinkA=0, shrinkB=0))
    for key, box in layout.boxes.items():
        node = graph.nodes[key]
        axes.add_patch(
            FancyBboxPatch(
                (box.x + 4, box.y + 4),
                box.width - 8,
                NODE_HEIGHT - 8,
                boxstyle="round,pad=4",
                facecolor=_FILL[node.kind],
                edgecolor=_LINE[node.kind],
                linewidth=2.6 if key == start else 1.4,
            )
        )
        for text, below, size in ((node.name, 19, 9), (node.detail, 36, 8)):
            shown = visible(shortened(text)).replace("$", r"\$")  # a dollar would begin a formula
            axes.text(box.x + 10, box.y + below, shown, fontsize=size, family="monospace", color=_INK)
    written = io.BytesIO()
    figure.savefig(written, format="png")
    return written.getvalue()


def _dpi(layout: Layout) -> float:
    """Return twice the points, or less for what would not fit into memory."""
    return min(2.0 * _POINTS_PER_INCH, 16_000 * _POINTS_PER_INCH / max(layout.width, layout.height))


def _curve(source: Box, target: Box) -> str:
    if target.x <= source.x:  # back to where data came from: below both, for between them is the way there
        low, x1, x2 = max(source.y, target.y) + NODE_HEIGHT, source.x + source.width / 2, target.x + target.width / 2
        y1, y2 = source.y + NODE_HEIGHT, target.y + NODE_HEIGHT
        return f"M{x1:.1f} {y1:.1f}C{x1:.1f} {low + _BELOW:.1f} {x2:.1f} {low + _BELOW:.1f} {x2:.1f} {y2:.1f}"
    x1, y1, x2, y2 = source.x + source.width, source.y + NODE_HEIGHT / 2, target.x, target.y + NODE_HEIGHT / 2
    bend = max(40.0, abs(x2 - x1) / 2)
    return f"M{x1:.1f} {y1:.1f}C{x1 + bend:.1f} {y1:.1f} {x2 - bend:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"


def _text(text: str) -> str:
    return escape(visible(text).replace("\ufffe", "").replace("\uffff", ""), {'"': "&quot;"})
