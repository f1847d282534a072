"""What a click means."""

import time

import pytest

from penstock.console.pages.clicks import Clicks


def test_a_double_click_is_one_action_and_a_later_click_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    clicks, now_s = Clicks(), 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    first, second, other = (clicks.action_id(what) for what in ("restart", "restart", "pause"))
    now_s = 0.9
    third = clicks.action_id("restart")
    now_s = 1.1
    later = clicks.action_id("restart")

    assert first == second == third
    assert 3 == len({first, other, later})
