"""Searches that meet what nobody expects: they end, and make room for others."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from penstock.console.masks import Masks
from penstock.console.records import Record, content_of
from penstock.console.searches import Search, Searches, Wanted

from support.waiting import eventually


class _Broken(Searches):
    """Finds a topic, and then nothing as it should be."""

    def _extent(self, wanted: Wanted) -> tuple[int, dict[tuple[str, int], int]]:
        return 1, {(wanted.topic, 0): 0}


def _defect() -> Any:
    raise ZeroDivisionError


def test_searches_that_break_say_so_and_do_not_keep_others_out(tmp_path: Path) -> None:
    searches = _Broken(_defect, _defect, Masks(tmp_path / "masks.yaml"))

    def ended() -> Search:
        begun = searches.begin("ann", Wanted(topic="t", value="x"))
        return eventually(lambda: searches.get("ann", begun.id), lambda found: found.state != "running")

    told = "a defect in Penstock: the console's log says more"
    assert [("failed", told)] * 6 == [(each.state, each.problem) for each in (ended() for _ in range(6))]


def test_a_value_nested_too_deep_to_be_compared_does_not_fit() -> None:
    value = content_of(b'{"a":' * 300 + b"1" + b"}" * 300)
    deep = Record(topic="t", partition=0, offset=0, timestamp_ms=None, key=None, value=value, headers=[])

    assert [True, False] == [Wanted(topic="t", json_path="a", equals=each).takes_shown(deep) for each in (None, "x")]


@pytest.mark.parametrize("wanted", [{"json_path": "9" * 5_000}, {"value": "x", "start": "9" * 5_000}])
def test_paths_and_positions_have_a_length(wanted: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="at most"):
        Wanted.model_validate({"topic": "t", **wanted})
