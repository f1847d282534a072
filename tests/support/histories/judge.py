"""The judge of a history: every record that was acknowledged, against a fresh read of every sink.

For each sink, each record is exactly one of: one row as it was sent, one dead letter as it was sent, or part of a gap
that is on record and that a fault of this history explains.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from penstock.delivery.gaps import Gap

from support.histories.records import Record
from support.histories.sinks import Landed, Letter

Spot = tuple[str, int, int]


def judge(
    sink: str,
    acknowledged: Mapping[Spot, Record],
    rows: Iterable[Landed],
    letters: Iterable[Letter],
    gaps: Iterable[Gap] = (),
    destroyed: frozenset[Spot] | set[Spot] = frozenset(),
    excused: frozenset[Spot] | set[Spot] = frozenset(),
    unseen: frozenset[str] | set[str] = frozenset(),
) -> list[str]:
    """Return what is wrong with one sink; an empty list is a pass. `unseen` topics came and went, and no driver ran."""
    landed: dict[Spot, list[Landed]] = defaultdict(list)
    dead: dict[Spot, list[Letter]] = defaultdict(list)
    for row in rows:
        landed[row.topic_id, row.partition, row.offset].append(row)
    for letter in letters:
        if letter.sink in (None, sink):
            dead[letter.topic_id, letter.partition, letter.offset].append(letter)
    skipped = list(gaps)
    wrong = []
    for spot, record in acknowledged.items():
        if landed[spot] or dead[spot]:
            fault = _fault(record, landed[spot], dead[spot])
        else:
            is_explained = spot in destroyed and (
                any(_covers(gap, spot) for gap in skipped)
                or _is_of_unseen_partition(skipped, spot)
                or (spot[0] in unseen and any(gap.end is None for gap in skipped))
            )
            fault = "" if spot in excused or is_explained else "lost"
        if fault:
            wrong.append(f"{sink}: {fault}: {spot} ({record.shape})")
    strangers = {spot for found in (landed, dead) for spot, each in found.items() if each} - acknowledged.keys()
    wrong += [f"{sink}: never acknowledged: {spot}" for spot in sorted(strangers)]
    return wrong


def _fault(record: Record, landed: list[Landed], dead: list[Letter]) -> str:
    """Say what is wrong with what became of a record."""
    if len(landed) + len(dead) > 1:
        return f"{len(landed)} rows and {len(dead)} dead letters"
    if landed and record.fate == "dead":
        return "landed, and no row could be made of it"
    if landed and landed[0].data != record.meant:
        return "not what was sent"
    if dead and record.fate == "row":
        return "a good record is a dead letter"
    if dead and dead[0].is_whole and dead[0].value != record.value:
        return "a dead letter with other bytes"
    return ""


def unexplained(gaps: Iterable[Gap], acknowledged: Iterable[Spot], destroyed: set[Spot]) -> list[str]:
    """A gap may name only what is gone: recording one over records that are there is skipping them."""
    listed = list(acknowledged)
    return [
        f"the gap {gap.topic_id}:{gap.partition} {gap.start} to {gap.end} covers {spot}, which is still there"
        for gap in gaps
        for spot in listed
        if _covers(gap, spot) and spot not in destroyed
    ]


def _is_of_unseen_partition(gaps: list[Gap], spot: Spot) -> bool:
    """Of a topic that is gone, partitions may have been added that the pipeline never saw: its gap means those, too."""
    of_topic = [gap for gap in gaps if gap.topic_id == spot[0]]
    return any(gap.end is None for gap in of_topic) and all(gap.partition != spot[1] for gap in of_topic)


def _covers(gap: Gap, spot: Spot) -> bool:
    in_partition = (gap.topic_id, gap.partition) == spot[:2]
    return in_partition and gap.start <= spot[2] and (gap.end is None or spot[2] < gap.end)
