"""Figures as bars."""

from pathlib import Path
from xml.etree import ElementTree

from penstock.lab.bench.drawing import bars, save_bars


def test_the_largest_value_has_the_longest_bar_and_every_value_is_reported() -> None:
    fast, slow, unit = bars({"fast": 1000, "slow": 10}, "events a second")

    assert (50, 1) == (fast.count("█"), slow.count("█"))
    assert (True, True) == (fast.endswith("1,000"), slow.endswith("10"))
    assert "events a second" == unit.strip()


def test_the_picture_is_well_formed_whatever_the_names_are(tmp_path: Path) -> None:
    path = tmp_path / "bars.svg"

    save_bars({"a < b & c": 2.0, "d": 1.0}, "ms", path)

    texts = [each.text for each in ElementTree.parse(path).iter() if each.tag.endswith("text")]  # noqa: S314 - our own
    assert ["a < b & c", "2", "d", "1", "ms"] == texts
