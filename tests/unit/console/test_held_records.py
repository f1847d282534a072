"""Records are anybody's, and may be large: a console holds no more of them for a page than one answer has room for."""

from itertools import count
from pathlib import Path
from typing import Any

from penstock.console.masks import Masks
from penstock.console.records import MOST_HELD_BYTES, Record, content_of, that_fit
from penstock.console.searches import Search, Searches, Wanted
from penstock.console.tails import TailWanted, _Tail

from support.waiting import eventually

LARGE = [("h", content_of(b"x" * 60_000))] * 100
"""Headers of six million bytes."""
FIT = MOST_HELD_BYTES // 6_000_000


def record(offset: int, headers: Any = LARGE) -> Record:
    return Record(topic="t", partition=0, offset=offset, timestamp_ms=offset, key=None, value=None, headers=headers)


def test_as_many_records_are_held_as_there_is_room_for_and_one_at_least() -> None:
    small = [record(each, []) for each in range(10_000)]
    huge = record(0, LARGE * 10)

    assert (FIT, 10_000, 1) == tuple(
        len(that_fit(each)) for each in (map(record, range(100)), small, [huge, record(1)])
    )


def test_a_tail_holds_the_newest_records_that_fit_and_counts_the_others() -> None:
    tail = _Tail("ann", TailWanted(topic="t"))
    for number in range(10):
        tail.put([record(number)], 1)
    look, rest = tail.look(), tail.look()

    assert (list(range(10 - FIT, 10)), 10 - FIT) == ([each.offset for each in look.records], look.skipped)
    assert ([], 0) == (rest.records, rest.skipped)


def test_searches_that_have_ended_are_kept_as_long_as_there_is_room(tmp_path: Path) -> None:
    numbers = count()

    class Full(Searches):
        """Finds as much as a search may hold."""

        def _extent(self, wanted: Wanted) -> tuple[int, dict[tuple[str, int], int]]:
            return 1, {(wanted.topic, 0): 0}

        def _run(self, running: Any, _starts: dict[tuple[str, int], int]) -> None:
            running.update(state="done", found=[record(next(numbers)) for _ in range(FIT)])

    searches = Full(lambda: None, lambda: None, Masks(tmp_path / "masks.yaml"))  # type: ignore[arg-type,return-value]

    def ended() -> Search:
        begun = searches.begin("ann", Wanted(topic="t", value="x"))
        return eventually(lambda: searches.get("ann", begun.id), lambda found: found.state != "running")

    ids = [ended().id for _ in range(20)]

    assert ids[-5:] == list(searches._known)
