"""What a chart is given: a browser merges it into what the chart had before, and keeps whatever is merely left out."""

import datetime
from types import SimpleNamespace
from typing import Any

from penstock.console.pages.charts import show_rate


def test_a_chart_that_was_empty_says_so_no_longer_once_it_has_points() -> None:
    chart: Any = SimpleNamespace(options={"xAxis": {}, "series": [{}]}, update=lambda: None)

    def shown(points: list[dict[str, float]]) -> tuple[str, str, bool]:
        show_rate(chart, points, datetime.UTC)
        (words,) = chart.options["graphic"]
        return words["id"], words["style"]["text"], chart.options["series"][0]["showSymbol"]

    empty = shown([])
    one = shown([{"at": 0.0, "records_per_s": 1.0}])
    two = shown([{"at": 0.0, "records_per_s": 1.0}, {"at": 5.0, "records_per_s": 2.0}])

    assert [("empty", "Nothing to show yet", False), ("empty", "", True), ("empty", "", False)] == [empty, one, two]
