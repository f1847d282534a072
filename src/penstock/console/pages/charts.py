"""Charts with axes and units."""

import datetime
from collections.abc import Sequence
from typing import Any

from nicegui import ui

from penstock.console.pages.wording import moment

_SOFT = "#8a909c"
_ACCENT = "#3b7be0"
_WARN = "#c98a1b"
_EMPTY = "Nothing to show yet"


def rate_chart() -> Any:
    """Draw an empty chart of records a second over time."""
    return _chart([{"type": "line", "name": "records/s", "areaStyle": {"color": _ACCENT, "opacity": 0.12}}])


def batch_chart() -> Any:
    """Draw an empty chart of the events and the lag of batches over time."""
    return _chart([{"type": "bar", "name": "events"}, {"type": "line", "name": "lag", "color": _WARN}])


def lag_chart() -> Any:
    """Draw an empty chart of the records in topics and the lag of groups over time."""
    return _chart([{"type": "line", "name": "records"}, {"type": "line", "name": "lag", "color": _WARN}])


def group_chart() -> Any:
    """Draw an empty chart of a group's lag over time."""
    return _chart([{"type": "line", "name": "lag", "color": _WARN, "areaStyle": {"color": _WARN, "opacity": 0.12}}])


def _chart(series: list[dict[str, Any]]) -> Any:
    colours = [each.pop("color", _ACCENT) for each in series]
    drawn = [
        {
            **each,
            "showSymbol": False,
            "barMaxWidth": 24,
            "data": [],
            "yAxisIndex": number,
            "lineStyle": {"color": colour, "width": 2},
            "itemStyle": {"color": colour},
        }
        for number, (each, colour) in enumerate(zip(series, colours, strict=True))
    ]
    options = {
        "animation": False,
        "grid": {"left": 64, "right": 64 if len(series) > 1 else 16, "top": 40, "bottom": 28},
        "tooltip": {"trigger": "axis"},
        "xAxis": {
            "type": "category",
            "data": [],
            "axisLabel": {"color": _SOFT, "hideOverlap": True},
            "axisLine": {"lineStyle": {"color": _SOFT}},
        },
        "yAxis": [_axis(each["name"]) for each in series],
        "series": drawn,
        "graphic": [_words(_EMPTY)],
    }
    if len(series) > 1:
        options["legend"] = {"left": "center", "top": 8, "textStyle": {"color": _SOFT}}
    return ui.echart(options).classes("panel").style("height: 200px; width: 100%")


def _axis(unit: str) -> dict[str, Any]:
    return {
        "type": "value",
        "min": 0,
        "minInterval": 1,
        "name": unit,
        "nameTextStyle": {"color": _SOFT},
        "axisLabel": {"color": _SOFT},
        "splitLine": {"lineStyle": {"color": _SOFT, "opacity": 0.2}},
    }


def _put(chart: Any, times: list[str], *values: Sequence[float | None]) -> None:
    chart.options["xAxis"]["data"] = times
    for series, shown in zip(chart.options["series"], values, strict=True):
        series["data"] = shown
        series["showSymbol"] = len(times) == 1  # one point makes no line
    # It stays, without words: what is merely left out of new options stays as it was.
    chart.options["graphic"] = [_words("" if times else _EMPTY)]
    chart.update()


def _words(text: str) -> dict[str, Any]:
    style = {"text": text, "fill": _SOFT}
    return {"id": "empty", "type": "text", "left": "center", "top": "middle", "style": style}


def show_rate(chart: Any, points: list[dict[str, float]], zone: datetime.tzinfo) -> None:
    """Put the points of a rate into its chart; without any it says so."""
    times = [moment(each["at"], zone)[11:] for each in points]
    _put(chart, times, [round(each["records_per_s"], 1) for each in points])


def show_batches(chart: Any, batches: list[dict[str, Any]], zone: datetime.tzinfo) -> None:
    """Put batches into their chart, the oldest first; without any it says so."""
    times = [moment(each["at"], zone)[5:] for each in batches]
    _put(chart, times, [each["events"] for each in batches], [each["lag"] for each in batches])


def show_lag(chart: Any, points: list[dict[str, float | None]], zone: datetime.tzinfo) -> None:
    """Put what was seen so far into a chart of records and lag, the oldest first."""
    times = [moment(each["at"], zone)[11:] for each in points]
    _put(chart, times, [each["records"] for each in points], [each["lag"] for each in points])


def show_group(chart: Any, points: list[dict[str, Any]], zone: datetime.tzinfo) -> None:
    """Put a group's lag into its chart, the oldest first; without any it says so."""
    _put(chart, [moment(each["at"], zone)[11:] for each in points], [each["lag"] for each in points])
