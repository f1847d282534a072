"""penstock dead: records that failed, why, and what to do with them."""

from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from penstock.cli.output import Json, Yes, confirm, moment, print_json, print_rows, print_table, say
from penstock.cli.session import session
from penstock.errors import BadInput, FormatNotUnderstood, NotFound
from penstock.wording import plural

if TYPE_CHECKING:
    from penstock.delivery.dead_letter import DeadLetter
    from penstock.delivery.selection import Filter

app = typer.Typer(help="Dead letters: list, show, replay, discard.", no_args_is_help=True)

Topic = Annotated[str | None, typer.Option(help="One dead-letter topic; all whose names end in .dead if left out.")]
Pipeline = Annotated[str | None, typer.Option(help="Only those of this pipeline.")]
Error = Annotated[str | None, typer.Option(help="Only those with this error class, or with this text in the message.")]
Stage = Annotated[
    Literal["decode", "step", "handler", "sql", "expect", "where", "sink"] | None,
    typer.Option(help="Only those that failed at this stage."),
]
Since = Annotated[str | None, typer.Option(help="Failed since then: 2026-01-31T12:00, or 15m.")]
Until = Annotated[str | None, typer.Option(help="Failed before then.")]


@app.command("list")
def list_(
    context: typer.Context,
    topic: Topic = None,
    pipeline: Pipeline = None,
    error: Error = None,
    stage: Stage = None,
    since: Since = None,
    until: Until = None,
    letters: Annotated[bool, typer.Option(help="List each letter instead of counting them by reason.")] = False,
    as_json: Json = False,
) -> None:
    """Count open dead letters by reason, the most frequent first; or list each."""
    from penstock.delivery.selection import reasons, select

    wanted = _filter(topic, pipeline, error, stage, since, until)
    _warn_of_another_ledger(context)
    found = select(session(context).live_connection(), wanted, _not_listed)
    if letters:
        rows = list(found)
        if not rows:
            _require_known(context, pipeline)
        if as_json:
            print_json(rows)
        elif not rows:
            say("no dead letters")
        else:
            columns = [
                "dead_topic",
                "dead_partition",
                "dead_offset",
                "pipeline",
                "stage",
                "error",
                "message",
                "attempt",
            ]
            print_table(columns, [[getattr(each, column) for column in columns] for each in rows])
        return
    first = next(found, None)
    if first is None:
        _require_known(context, pipeline)
    print_rows(reasons(chain([first] if first else [], found)), as_json=as_json, empty="no dead letters")
    if first is not None and not as_json:
        place = f"{first.dead_topic} {first.dead_partition} {first.dead_offset}"
        say(f"show one whole with: penstock dead show {place}; list each with: penstock dead list --letters")


def _warn_of_another_ledger(context: typer.Context) -> None:
    from penstock.errors import Conflict
    from penstock.operate.known_ledger import require_same_ledger

    try:
        require_same_ledger(session(context).settings)
    except Conflict as conflict:
        say(f"warning: {conflict}")


def _not_listed(error: FormatNotUnderstood) -> None:
    say(f"warning: left out: {error}")


def _require_known(context: typer.Context, pipeline: str | None) -> None:
    """Raise if no pipeline of this name has run here; letters of one that runs elsewhere were found."""
    from penstock.operate.known_pipelines import known_paths

    if pipeline is not None:
        known_paths(session(context).settings, pipeline.partition(".replay-")[0])


@app.command()
def show(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(help="The dead-letter topic.")],
    partition: Annotated[int, typer.Argument(help="Partition.")],
    offset: Annotated[int, typer.Argument(help="Offset.")],
    as_json: Json = False,
) -> None:
    """Show one dead letter whole: why it failed, and the record byte for byte."""
    import base64

    from penstock.delivery.dead_envelope import PREFIX
    from penstock.delivery.dead_letter import understand
    from penstock.kafka.reader import read_one

    connection, message = session(context).live_connection(), None
    with suppress(BadInput):
        message = read_one(connection, topic, partition, offset)
    letter = understand(message) if message is not None else None
    if message is None or letter is None:
        raise NotFound(
            f"there is no dead letter at offset {offset} of {topic}/{partition}",
            fix="List each with: penstock dead list --letters",
        )
    listed: Any = message.headers() or []
    record = {
        "key": _shown(message.key()),
        "value": _shown(message.value()),
        "headers": {name: _shown(value) for name, value in listed if not name.startswith(PREFIX)},
        "value_base64": base64.b64encode(message.value() or b"").decode(),
    }
    if as_json:
        print_json({**letter.model_dump(), "record": record})
        return
    print_table(["", ""], [[name, value] for name, value in _for_people(letter).items()], own_data=True)
    print_table(["", ""], [[name, record[name]] for name in ("key", "value", "headers")])


def _for_people(letter: "DeadLetter") -> dict[str, Any]:
    """Leave out what adds nothing: empty fields, and where the record was read if that is where it came from."""
    fields = letter.model_dump()
    if (letter.source_id, letter.at_partition, letter.at) == (letter.topic_id, letter.partition, letter.offset):
        fields = {name: each for name, each in fields.items() if name not in {"source_id", "at_partition", "at"}}
    times = {"failed_ms": "failed", "timestamp_ms": "timestamp"}
    return {
        times.get(name, name): moment(each / 1000) if name in times else each
        for name, each in fields.items()
        if each is not None
    }


def _shown(value: bytes | str | None) -> str | None:
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else value


@app.command()
def replay(
    context: typer.Context,
    topic: Topic = None,
    pipeline: Pipeline = None,
    error: Error = None,
    stage: Stage = None,
    since: Since = None,
    until: Until = None,
    file: Annotated[Path | None, typer.Option(help="A fixed pipeline file; the one that ran last if left out.")] = None,
    resume: Annotated[str | None, typer.Option(help="Id of a replay that did not finish.")] = None,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Send dead letters through their pipeline again, once; what fails again is a new dead letter.

    Without options: all that are open, if they are of one pipeline. With --resume: the rest of an interrupted replay.
    """
    from penstock.cli.run_display import run_display
    from penstock.delivery.selection import only_pipeline, select
    from penstock.operate import replay as replays
    from penstock.operate.known_pipelines import file_of, file_of_name
    from penstock.pipeline.load import load

    settings = session(context).settings
    if resume is not None:
        chosen = replays.find(settings, resume)
    else:
        path = file or (file_of(settings, pipeline) if pipeline is not None else None)
        name = pipeline or (load(path).name if path is not None else None)
        letters = list(select(settings.connection(), _filter(topic, name, error, stage, since, until), _not_listed))
        if not letters:
            say("no dead letters to replay")
            return
        path = path or file_of_name(settings, only_pipeline(letters))
        selection = replays.replayable(letters, path)
        for each in selection.left_out:
            say(f"left out: {each}")
        letters = selection.letters
        confirm(f"Replay {plural(len(letters), 'dead letter')} through {path}?", yes=yes)
        chosen = replays.begin(settings, letters, path)
        say(f"replay {chosen.id} started. If interrupted, continue with: penstock dead replay --resume {chosen.id}")
    with run_display() as show:
        status = replays.run(settings, chosen, file, show=show)
    written = {name: each.written for name, each in status.sinks.items()}
    if as_json:
        print_json({"replay": chosen.id, "letters": chosen.count, "written": written, "failed_again": status.dead})
        return
    say(f"replay {chosen.id} done: {plural(chosen.count, 'letter')}, {status.dead} failed again")
    print_table(["sink", "written"], [[name, count] for name, count in written.items()])


@app.command("give-up")
def give_up(
    context: typer.Context,
    replay: Annotated[str, typer.Argument(metavar="ID", help="Id of a replay that cannot finish.")],
    file: Annotated[Path | None, typer.Option(help="Its pipeline file, if it was begun elsewhere.")] = None,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Give up a replay that cannot finish; letters become open again for the sinks that have not received them."""
    from penstock.operate import replay as replays

    confirm(f"Nobody will be able to continue the replay {replay}. Give it up?", yes=yes)
    found = replays.give_up(session(context).settings, replay, file)
    if as_json:
        print_json(found)
    else:
        say(f"replay {replay} given up: {plural(found.open_again, 'letter')} open again, {found.settled} settled")
        if found.open_for_one_sink:
            say(f"{plural(found.open_for_one_sink, 'new letter')}, each for one sink that lacks what another has")


@app.command()
def discard(
    context: typer.Context,
    topic: Topic = None,
    pipeline: Pipeline = None,
    error: Error = None,
    stage: Stage = None,
    since: Since = None,
    until: Until = None,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Discard dead letters for good; the records stay in their topic, but are no longer listed."""
    from penstock.delivery.ledger import Ledger
    from penstock.delivery.selection import select
    from penstock.operate.known_ledger import note_ledger

    connection = session(context).live_connection()
    _warn_of_another_ledger(context)
    letters = list(select(connection, _filter(topic, pipeline, error, stage, since, until), _not_listed))
    if not letters:
        _require_known(context, pipeline)
    done = 0
    if letters:
        of = ", ".join(sorted({letter.dead_topic for letter in letters}))
        confirm(f"Discard {plural(len(letters), 'dead letter')} of {of}?", yes=yes)
        done = Ledger(connection).discard(letters)
        note_ledger(session(context).settings)
    if as_json:
        print_json({"found": len(letters), "discarded": done})
    elif not letters:
        say("no dead letter matches: nothing was discarded")
    else:
        say(f"{done} of {plural(len(letters), 'dead letter')} discarded")


def _filter(
    topic: str | None, pipeline: str | None, error: str | None, stage: str | None, since: str | None, until: str | None
) -> "Filter":
    from penstock.delivery.selection import Filter

    return Filter(topic=topic, pipeline=pipeline, error=error, stage=stage, since=since, until=until)
