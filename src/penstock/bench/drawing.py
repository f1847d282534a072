"""Figures as bars: on the terminal, and as a picture that any browser shows."""

from collections.abc import Mapping
from pathlib import Path
from xml.sax.saxutils import escape

_WIDTH = 50
_BAR_HEIGHT, _GAP, _LEFT, _SCALE = 24, 10, 260, 420


def bars(values: Mapping[str, float], unit: str) -> str:
    """Give one line for each value, the longest for the largest."""
    most = max(values.values())
    room = max(map(len, values))
    lines = [
        f"{name:<{room}}  {'█' * max(1, round(_WIDTH * value / most)):<{_WIDTH}}  {value:,.0f}"
        for name, value in values.items()
    ]
    return "\n".join([*lines, f"{'':<{room}}  {unit}"])


def save_bars(values: Mapping[str, float], unit: str, path: Path) -> None:
    """Draw the same as SVG."""
    most = max(values.values())
    height = len(values) * (_BAR_HEIGHT + _GAP) + 40
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _SCALE + 120}" height="{height}"'
            ' font-family="sans-serif" font-size="13">'
        ),
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for number, (name, value) in enumerate(values.items()):
        top = 10 + number * (_BAR_HEIGHT + _GAP)
        length = max(1, round(_SCALE * value / most))
        middle = top + _BAR_HEIGHT - 7
        parts += [
            f'<text x="{_LEFT - 8}" y="{middle}" text-anchor="end">{escape(name)}</text>',
            f'<rect x="{_LEFT}" y="{top}" width="{length}" height="{_BAR_HEIGHT}" fill="#2f6f9f"/>',
            f'<text x="{_LEFT + length + 6}" y="{middle}">{value:,.0f}</text>',
        ]
    parts.append(f'<text x="{_LEFT}" y="{height - 10}" fill="#555">{escape(unit)}</text></svg>')
    path.write_text("\n".join(parts) + "\n", encoding="utf-8")
