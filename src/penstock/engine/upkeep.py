"""What a person decides: rebuilding a lost checkpoint, going on over a gap, giving up a record.

All of these are commands, never automatic.
"""

from dataclasses import replace

from penstock.delivery import gaps as records
from penstock.delivery import standing as stands
from penstock.delivery.checkpoint import Checkpoint, Committed
from penstock.delivery.crash_points import crash_point
from penstock.delivery.dead_letters import SINK_NAME
from penstock.delivery.gaps import Gap
from penstock.delivery.positions import Place, Stretch
from penstock.engine.home import Home
from penstock.engine.runner import Runner
from penstock.errors import BadInput, Conflict, NotFound
from penstock.kafka.connection import Connection
from penstock.pipeline.spec import PipelineSpec
from penstock.sinks.sink import Staged
from penstock.sources.kafka import Kafka, KafkaFeed


def rebuild(runner: Runner) -> dict[str, dict[Place, int]]:
    """Make a new checkpoint; give the positions that the sinks have, which is where they will go on.

    A sink without a position starts where the source says. One that keeps none, or whose positions are those of a group
    that Kafka may have forgotten, goes on from the reported lag; dead letters from where the furthest sink stands.
    """
    places = [each.place for each in runner.extents]
    reported = runner.lag_report.told(places)
    # Positions inside of a transaction that a dead driver left open are not settled, and would be waited for in vain.
    runner.take_over()
    for sink in runner.sinks:
        sink.recover(places)
    found = {name: keeper.positions(places) for name, keeper in runner.keepers.items()}
    known = {name: dict(positions or {}) for name, positions in found.items()}
    recorded: dict[str, dict[Place, int]] = {}
    for name, keeper in runner.keepers.items():
        if found[name] is None or (keeper.positions_expire and not known[name]):
            recorded[name] = known[name] = dict(reported)
    for place in places:
        furthest = [positions[place] for positions in known.values() if place in positions]
        if SINK_NAME in recorded and furthest:
            recorded[SINK_NAME][place] = max(furthest)
    starts = runner.feed.starts(runner.extents)
    for extent in runner.extents if reported else ():
        if not any(extent.place in (positions or {}) for positions in found.values()):
            # No sink was written to from here yet: it began where it said it did, or later, as a new partition.
            starts[extent.place] = reported.get(extent.place, stands.first_of(extent, Committed(0, reported)))
    # On record for each: beside a sink that goes on, one without a position must not be taken for one added later.
    begins = {name: {place: at for place, at in starts.items() if place not in known[name]} for name in known}
    runner.checkpoint.create(Committed(0, starts, recorded, begins=begins))
    return known


def planned_gaps(runner: Runner) -> list[Gap]:
    """Give what would be skipped: offsets that retention took, and what was left of a topic that was made anew."""
    return _find(runner)[1]


def skip_gaps(runner: Runner) -> list[Gap]:
    """Record the gaps, then move every sink past them; nothing is moved that is not recorded."""
    committed, found = _find(runner)
    if not found:
        return []
    records.record(runner.home.folder, found)
    crash_point("gap_recorded")
    standing = runner.standing(committed, runner.extents)
    sinks = {name: dict(positions) for name, positions in committed.sinks.items()}
    for gap in stands.missing(standing, runner.extents):
        place, end = gap.place, gap.end
        for sink in runner.sinks:
            start = standing.trims[sink.name][place]
            if start < end:
                sink.prepare([Staged(Stretch(place, start, end), 0, {})], {place: standing.expected[sink.name][place]})
                sink.commit()
                crash_point("sink_committed", sink.name)
        if standing.trims[SINK_NAME][place] < end:
            runner.dead.commit([], {place: standing.expected[SINK_NAME][place]}, {place: end})
            crash_point("sink_committed", SINK_NAME)
        for name in runner.keepers:
            sinks.setdefault(name, {})[place] = max(end, standing.trims[name][place])
    runner.checkpoint.commit(replace(committed, sinks=sinks))
    return found


def skip(spec: PipelineSpec, connection: Connection, home: Home, which: str, reason: str) -> Gap:
    """Give up one record, `TOPIC:PARTITION:OFFSET`: it is on record as a gap, and no batch will ask for it.

    Neither Spark nor a sink is needed, whatever it is that fails; the driver must not run meanwhile.
    """
    if spec.is_stateful or spec.speed == "realtime" or not isinstance(spec.source, Kafka):
        raise BadInput("records can be skipped in a pipeline that reads Kafka by batches")
    topic, number, offset = _parsed(which)
    checkpoint = Checkpoint(home.checkpoint, spec.name)
    with checkpoint.locked():
        extents = KafkaFeed(spec.source, connection).extents()
        committed = checkpoint.load()
        stands.require_same_topics(spec.name, committed, {each.place.topic: each.place.topic_id for each in extents})
        committed = stands.with_new_places(committed, extents)
        found = [each for each in extents if (each.place.topic, each.place.partition) == (topic, number)]
        if not found:
            raise NotFound(f"pipeline '{spec.name}' reads no partition {number} of a topic '{topic}'")
        place = found[0].place
        at = [
            committed.sinks.get(name, {}).get(place, committed.starts[place]) for name in (*spec.sink_names, SINK_NAME)
        ]
        if not max(found[0].first, min(at)) <= offset < found[0].end:
            raise Conflict(
                f"pipeline '{spec.name}' stands at offset {min(at)} of {place}, which holds {found[0].first} to"
                f" {found[0].end}: {offset} is not ahead of it",
                safe="Nothing was changed",
            )
        if any(start <= offset < end for start, end in records.ranges(home.folder).get((place.topic_id, number), [])):
            raise Conflict(f"offset {offset} of {place} is skipped already", safe="Nothing was changed")
        gap = Gap(
            at=records.now(),
            pipeline=spec.name,
            topic=topic,
            topic_id=place.topic_id,
            partition=number,
            start=offset,
            end=offset + 1,
            reason=reason,
        )
        records.record(home.folder, [gap])
    return gap


def _parsed(which: str) -> tuple[str, int, int]:
    topic, _, rest = which.partition(":")
    number, _, offset = rest.partition(":")
    if not topic or not (number + offset).isascii() or not number.isdecimal() or not offset.isdecimal():
        raise BadInput(f"'{which}' is no record: name it TOPIC:PARTITION:OFFSET, such as orders:0:42")
    return topic, int(number), int(offset)


def _find(runner: Runner) -> tuple[Committed, list[Gap]]:
    committed = runner.checkpoint.load()
    ids = runner.feed.topic_ids()
    found = []
    for place, start in committed.starts.items():
        if ids.get(place.topic) not in (None, place.topic_id):
            last = min((at[place] for at in committed.sinks.values() if place in at), default=start)
            found.append(_gap(runner, Stretch(place, last, last), "topic recreated", end_is_known=False))
    gone = {(gap.topic_id, gap.partition) for gap in found}
    kept = committed.without(lambda place: (place.topic_id, place.partition) in gone)
    committed, changed = stands.with_new_leaders(stands.with_new_places(kept, runner.extents), runner.extents)
    found += [_gap(runner, each, "log truncated", end_is_known=True) for each in runner.replaced(changed)]
    standing = runner.standing(committed, runner.extents)
    missing = [_gap(runner, each, "retention", end_is_known=True) for each in stands.missing(standing, runner.extents)]
    return committed, [*found, *missing]


def _gap(runner: Runner, stretch: Stretch, reason: str, *, end_is_known: bool) -> Gap:
    return Gap(
        at=records.now(),
        pipeline=runner.spec.name,
        topic=stretch.place.topic,
        topic_id=stretch.place.topic_id,
        partition=stretch.place.partition,
        start=stretch.start,
        end=stretch.end if end_is_known else None,
        reason=reason,
    )
