"""Figures as bars: on the terminal, and as a picture, SVG or PNG."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from penstock.errors import BadInput
from penstock.private import replace_file

_WIDTH = 50
_BAR_HEIGHT, _GAP, _LEFT, _SCALE = 24, 10, 260, 420
_TITLE_HEIGHT, _UNIT_HEIGHT = 34, 40
_COLOUR = "#2f6f9f"
_EXACT_BELOW = 100
_COLUMNS, _PANEL_WIDTH_INCHES, _BAR_INCHES, _PANEL_INCHES, _DPI = 2, 6.0, 0.35, 1.0, 120


@dataclass(frozen=True)
class Panel:
    """One picture among others: a value for each name."""

    title: str
    unit: str
    values: Mapping[str, float]


def bars(values: Mapping[str, float], unit: str) -> list[str]:
    """Return one line for each value, the longest for the largest, and one with the unit."""
    room = max(map(len, values))
    lines = [
        f"{name:<{room}}  {'█' * _length(value, values, _WIDTH):<{_WIDTH}}  {_number(value)}"
        for name, value in values.items()
    ]
    return [*lines, f"{'':<{room}}  {unit}"]


def _length(value: float, values: Mapping[str, float], longest: int) -> int:
    """Return the length of a bar: none for nothing, and something to see for everything else."""
    return max(1, round(longest * value / max(values.values()))) if value else 0


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= _EXACT_BELOW else f"{value:.3g}"


def require_drawable(path: Path) -> None:
    """Raise unless a picture can be drawn there: ask before a measurement, not after it."""
    if path.suffix not in {".svg", ".png"}:
        raise BadInput(f"a picture is .svg or .png, and {path.name} is neither")


def save_bars(values: Mapping[str, float], unit: str, path: Path) -> None:
    """Draw the same as a picture."""
    save_panels([Panel("", unit, values)], path)


def save_panels(panels: Sequence[Panel], path: Path) -> None:
    """Draw several, each on a scale of its own."""
    replace_file(path, _png(panels) if path.suffix == ".png" else _svg(panels).encode())


def _svg(panels: Sequence[Panel]) -> str:
    parts: list[str] = []
    top = 0
    for panel in panels:
        drawn, height = _svg_panel(panel, top)
        parts += drawn
        top += height
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _SCALE + 120}" height="{top}"'
        ' font-family="sans-serif" font-size="13">'
    )
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>"]) + "\n"


def _svg_panel(panel: Panel, top: int) -> tuple[list[str], int]:
    """Return the elements of one panel, and its height."""
    parts = []
    first = top + 10
    if panel.title:
        parts.append(f'<text x="{_LEFT}" y="{top + 24}" font-weight="bold">{escape(panel.title)}</text>')
        first = top + _TITLE_HEIGHT
    for number, (name, value) in enumerate(panel.values.items()):
        bar_top = first + number * (_BAR_HEIGHT + _GAP)
        length = _length(value, panel.values, _SCALE)
        middle = bar_top + _BAR_HEIGHT - 7
        parts += [
            f'<text x="{_LEFT - 8}" y="{middle}" text-anchor="end">{escape(name)}</text>',
            f'<rect x="{_LEFT}" y="{bar_top}" width="{length}" height="{_BAR_HEIGHT}" fill="{_COLOUR}"/>',
            f'<text x="{_LEFT + length + 6}" y="{middle}">{_number(value)}</text>',
        ]
    bottom = first + len(panel.values) * (_BAR_HEIGHT + _GAP)
    parts.append(f'<text x="{_LEFT}" y="{bottom + 20}" fill="#555">{escape(panel.unit)}</text>')
    return parts, bottom + _UNIT_HEIGHT - top


def _png(panels: Sequence[Panel]) -> bytes:
    # Figure, not pyplot: no window system, and nothing that stays behind in the process.
    from matplotlib.figure import Figure

    columns = min(_COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    tallest = max(len(panel.values) for panel in panels)
    figure = Figure(
        figsize=(_PANEL_WIDTH_INCHES * columns, rows * (_PANEL_INCHES + _BAR_INCHES * tallest)), layout="constrained"
    )
    axes = figure.subplots(rows, columns, squeeze=False).flat
    for panel, axis in zip(panels, axes, strict=False):
        drawn = axis.barh(list(panel.values), list(panel.values.values()), color=_COLOUR)
        axis.bar_label(drawn, [_number(value) for value in panel.values.values()], padding=4)
        axis.invert_yaxis()
        axis.set_xlim(0, max(*panel.values.values(), 0) * 1.2 or 1)
        axis.set_xlabel(panel.unit)
        axis.set_title(panel.title)
        axis.spines[["top", "right"]].set_visible(False)
    for axis in axes:
        axis.set_visible(False)
    written = io.BytesIO()
    figure.savefig(written, format="png", dpi=_DPI)
    return written.getvalue()
