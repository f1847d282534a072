"""The past of groups as a console sees it: lag over time, and who came and went."""

import pytest

from penstock.console.group_history import GroupHistory
from penstock.errors import NotFound
from penstock.kafka import groups
from penstock.kafka.admin import Admin
from penstock.kafka.groups import GroupDetail, Member, PartitionLag


def group(lag: int, *members: str, state: str = "stable", owns: str = "orders/0") -> GroupDetail:
    partition = PartitionLag(topic="orders", partition=0, committed=0, start=0, end=lag, lag=lag, member=None)
    return GroupDetail(
        group="billing",
        state=state,
        coordinator=1,
        members=[Member(member_id=each, client_id=each, host="/127.0.0.1", partitions=[owns]) for each in members],
        partitions=[partition],
        lag=lag,
    )


class Seen:
    """A history whose looks are given, and which nobody else takes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now: GroupDetail | None = None
        monkeypatch.setattr(groups, "describe", self._describe)
        self.history = GroupHistory(lambda: None)  # type: ignore[arg-type, return-value]

    def _describe(self, _admin: Admin, name: str) -> GroupDetail:
        if self.now is None:
            raise NotFound(f"there is no group '{name}'")
        return self.now

    def look(self, found: GroupDetail | None) -> None:
        self.now = found
        self.history.look()


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    return Seen(monkeypatch)


def test_a_group_is_looked_at_from_when_somebody_asks_for_it(seen: Seen) -> None:
    seen.look(group(9, "a"))
    first = seen.history.of("billing")
    seen.look(group(7, "a"))
    seen.look(group(3, "a"))
    points, changes = seen.history.of("billing")

    assert ([], []) == first
    assert ([7, 3], []) == ([each.lag for each in points], changes)
    assert [7, 3] == [lag for _, lag in seen.history.lags_in("orders")]
    assert [] == seen.history.lags_in("others")


def test_who_comes_and_goes_and_what_moves_is_told(seen: Seen) -> None:
    seen.history.of("billing")
    for found in (
        group(0, "a"),
        group(0, "a", "b", state="completing_rebalancing"),
        group(0, "b"),
        group(0, "b", owns="orders/1"),
    ):
        seen.look(found)
    _, changes = seen.history.of("billing")

    assert [
        "b joined; stable → completing rebalancing",
        "a left; completing rebalancing → stable",
        "1 partition moved",
    ] == [each.what for each in changes]


def test_a_group_that_is_gone_is_forgotten_and_fifty_are_watched_at_most(seen: Seen) -> None:
    seen.history.of("billing")
    seen.look(group(5, "a"))
    seen.look(None)
    forgotten = seen.history.of("billing")
    seen.look(group(5, "a"))
    for number in range(50):
        seen.history.of(f"other-{number}")

    assert ([], []) == forgotten
    assert ([], []) == seen.history.of("billing")
