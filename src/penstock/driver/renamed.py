"""Renamed sinks: each goes on from its position under the former name.

Positions belong to a sink's name, and rows to its target. So the target is asked for the position under the sink's last
name, and before anything is read, it gets that position under the new name:

1. The targets' answers are recorded, with the new names. From now on they are not asked again: of two sinks that
exchange their names, the new position of one may take the place of the former one of the other. 2. Each sink moves.
3. That they have is put on record. After a crash in between, the next start goes on with it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

from penstock.delivery.checkpoint import Checkpoint, Committed, Move, ousted_name
from penstock.delivery.dead_letters import SINK_NAME
from penstock.errors import Conflict
from penstock.record.positions import Positions, SourcePartition
from penstock.sinks.sink import Sink

OpenAs = Callable[[str, str], AbstractContextManager[Sink]]
"""Opens the sink of one name by another one."""


def continued(
    checkpoint: Checkpoint,
    committed: Committed,
    targets: Mapping[str, str],
    sinks: Mapping[str, Sink],
    open_as: OpenAs,
    judged: Callable[[Iterable[SourcePartition]], Positions],
) -> Committed:
    """Return the checkpoint with the sinks' present names, each at its former position.

    How far records were `judged` is asked for if there are any others.
    """
    formers = committed.formers(targets)
    _require_known(formers)
    strange = targets.keys() - committed.sinks.keys() - formers.keys()
    formers |= _wrote(committed, sorted(strange), sinks, open_as)
    if formers:
        moves = {
            name: Move(tuple(listed), _stands(committed, sinks[name], listed, open_as))
            for name, listed in formers.items()
        }
        until = {**committed.sinks.get(SINK_NAME, {}), **judged(committed.starts)}
        committed = committed.renamed(moves, targets, sinks, until)
        checkpoint.commit(committed)
    moving = committed.moves.keys() & sinks.keys()
    for name in sorted(moving):
        sinks[name].go_on(committed.moves[name].formers, committed.moves[name].positions)
    if moving:
        left = {name: move for name, move in committed.moves.items() if name not in moving}
        committed = replace(committed, moves=left)
        checkpoint.commit(committed)
    return committed


def _require_known(formers: Mapping[str, Sequence[str]]) -> None:
    """Raise if a sink was taken out, and comes back by another name after another sink has got the one that it had."""
    for name, listed in formers.items():
        if was := next(filter(None, map(ousted_name, listed)), None):
            raise Conflict(
                f"sink '{name}' writes to where one called '{was}' wrote, which was taken out of the file, and another"
                " sink has got that name since: where to go on is not known",
                safe="Nothing was written",
                fix=f"Give it the name '{was}' again, and the other sink another one; or let it write elsewhere",
            )


def _wrote(
    committed: Committed, names: Iterable[str], sinks: Mapping[str, Sink], open_as: OpenAs
) -> dict[str, list[str]]:
    """Ask the targets of these new sinks which others have written there that are not in the file any more.

    A target may be on record as it was written then, such as without its schema, or not yet at all.
    """
    left = committed.sinks.keys() - {SINK_NAME, *sinks}
    found: dict[str, list[str]] = {}
    for name in names if left else ():
        for former in sorted(left):
            with open_as(name, former) as opened:
                opened.take_over()
                if opened.positions(committed.starts):
                    found.setdefault(name, []).append(former)
    return {name: [each for each in same if each in committed.ran] or same for name, same in found.items()}


def _stands(committed: Committed, sink: Sink, formers: Sequence[str], open_as: OpenAs) -> Positions:
    """Return where the target says that the sink stands, under whatever name it wrote there last."""
    asked = list(committed.starts)
    found = [_as(committed, sink, former, open_as) for former in formers]
    if any(positions != found[0] for positions in found):
        names = ", ".join(f"'{former}'" for former in formers)
        raise Conflict(
            f"sink '{sink.name}' writes to where {names} wrote, and these are not at the same offsets: where"
            " to continue is not known",
            safe="Nothing was written",
            fix="Put them back into the file under these names, run the pipeline until it has caught up, and rename"
            " them then",
        )
    # The name may be one that it had before: where it stood then is behind it.
    own = sink.positions(asked) or {}
    return {each: max(at, own.get(each, 0)) for each, at in found[0].items()}


def _as(committed: Committed, sink: Sink, former: str, open_as: OpenAs) -> Positions:
    if former in committed.moves:
        return committed.moves[former].positions
    with open_as(sink.name, former) as opened:
        opened.take_over()
        positions = opened.positions(committed.starts)
    return committed.sinks.get(former, {}) if positions is None else positions
