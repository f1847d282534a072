"""penstock dead: records that failed, why, and what becomes of them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from penstock.cli.output import Json, Yes, confirm, print_json, print_rows, print_table, say
from penstock.cli.session import session
from penstock.errors import BadInput, FormatNotUnderstood, NotFound

if TYPE_CHECKING:
    from penstock.delivery.selection import Filter

app = typer.Typer(help="Dead letters: list, show, replay, discard.", no_args_is_help=True)

Topic = Annotated[str | None, typer.Option(help="One dead-letter topic; all whose names end in .dead if left out.")]
Pipeline = Annotated[str | None, typer.Option(help="Only those of this pipeline.")]
Error = Annotated[str | None, typer.Option(help="Only with this error class, or with this in the message.")]
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
    letters: Annotated[bool, typer.Option(help="Each letter, instead of counts by reason.")] = False,
    as_json: Json = False,
) -> None:
    """Count open dead letters by reason, the most frequent first; or list each."""
    from penstock.delivery.selection import reasons, select

    wanted = _filter(topic, pipeline, error, stage, since, until)
    found = select(session(context).connection(), wanted, _not_listed)
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
    counted = reasons(found)
    if not counted:
        _require_known(context, pipeline)
    print_rows(counted, as_json=as_json, empty="no dead letters")


def _not_listed(error: FormatNotUnderstood) -> None:
    say(f"warning: left out: {error}")


def _require_known(context: typer.Context, pipeline: str | None) -> None:
    """Raise if no pipeline of this name has run here; letters of one that runs elsewhere were found."""
    from penstock.operate.driver import known_paths

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

    from penstock.delivery.dead_letters import PREFIX, understand
    from penstock.kafka.positions import Position
    from penstock.kafka.reader import Reader

    with Reader(session(context).connection(), topic, partition=partition, start=Position("offset", offset)) as reader:
        message = next((each for each in reader if each.offset() == offset), None)
    letter = understand(message) if message is not None else None
    if message is None or letter is None:
        raise NotFound(f"there is no dead letter at offset {offset} of {topic}/{partition}")
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
    print_table(["", ""], [[name, value] for name, value in letter.model_dump().items()])
    print_table(["", ""], [[name, record[name]] for name in ("key", "value", "headers")])


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
    resume: Annotated[str | None, typer.Option(help="Id of a replay that did not get to its end.")] = None,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Send dead letters through their pipeline again, once; what fails again comes back with its attempt raised."""
    from penstock.delivery.selection import select
    from penstock.operate import replay as replays
    from penstock.operate.driver import file_of
    from penstock.operate.settling import by_sink
    from penstock.pipeline.load import load

    settings = session(context).settings
    if resume is not None:
        chosen = replays.find(settings, resume)
    else:
        if pipeline is None and file is None:
            raise BadInput("say which: --pipeline NAME, --file FILE, or --resume ID")
        path = file or file_of(settings, pipeline or "")
        name = pipeline or load(path).name
        letters = list(select(settings.connection(), _filter(topic, name, error, stage, since, until), _not_listed))
        if not letters:
            say("no dead letters to replay")
            return
        stubs = [letter for letter in letters if letter.stub is not None]
        if 0 < len(stubs) < len(letters):
            say(f"{len(stubs)} letter(s) are stubs, which do not hold their records: left out")
            letters = [letter for letter in letters if letter.stub is None]
        own, others = by_sink(letters, load(path))
        if own and others:
            say(f"{len(others)} letter(s) are of sink '{others[0].sink}', which {path} does not have: left out")
            letters = own
        confirm(f"Replay {len(letters)} dead letter(s) through {path}?", yes=yes)
        chosen = replays.begin(settings, letters, path)
        say(f"replay {chosen.id} begun; if it does not get to its end: penstock dead replay --resume {chosen.id}")
    status = replays.run(settings, chosen, file)
    written = {name: each.written for name, each in status.sinks.items()}
    if as_json:
        print_json({"replay": chosen.id, "letters": chosen.count, "written": written, "failed_again": status.dead})
        return
    say(f"replay {chosen.id} done: {chosen.count} letter(s), {status.dead} failed again")
    print_table(["sink", "written"], [[name, count] for name, count in written.items()])


@app.command("give-up")
def give_up(
    context: typer.Context,
    replay: Annotated[str, typer.Argument(metavar="ID", help="Id of a replay that cannot get to its end.")],
    file: Annotated[Path | None, typer.Option(help="Its pipeline file, if it was begun elsewhere.")] = None,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """End a replay that cannot get to its end; letters that no sink has got by it are open again."""
    from penstock.operate import replay as replays

    confirm(f"Nobody will be able to go on with the replay {replay}. Give it up?", yes=yes)
    opened, settled, warning = replays.give_up(session(context).settings, replay, file)
    if as_json:
        print_json({"replay": replay, "open_again": opened, "settled": settled, "warning": warning})
    else:
        say(f"replay {replay} given up: {opened} letter(s) are open again, {settled} stay settled")
        if warning:
            say(warning)


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
    """Settle dead letters for good; the records stay in their topic, and leave the list."""
    from penstock.delivery.ledger import Ledger
    from penstock.delivery.selection import select

    connection = session(context).connection()
    letters = list(select(connection, _filter(topic, pipeline, error, stage, since, until), _not_listed))
    if not letters:
        _require_known(context, pipeline)
    done = 0
    if letters:
        confirm(f"Discard {len(letters)} dead letter(s)?", yes=yes)
        done = Ledger(connection).discard(letters)
    if as_json:
        print_json({"found": len(letters), "discarded": done})
    else:
        say(f"{done} of {len(letters)} dead letter(s) discarded")


def _filter(
    topic: str | None, pipeline: str | None, error: str | None, stage: str | None, since: str | None, until: str | None
) -> "Filter":
    from penstock.delivery.selection import Filter

    return Filter(topic=topic, pipeline=pipeline, error=error, stage=stage, since=since, until=until)
