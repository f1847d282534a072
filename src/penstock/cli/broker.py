"""penstock up, down, status, logs, restart: a real Kafka on this machine, and all that the project has around it."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli import live, parts, system
from penstock.cli.output import Json, Yes, confirm, print_json, print_rows, print_table, say, say_error
from penstock.cli.progress import bar
from penstock.cli.session import Session, session
from penstock.config.complaints import in_words
from penstock.driver.log_files import last_lines
from penstock.errors import BadInput, Conflict, NotFound, PenstockError
from penstock.loopback import is_loopback
from penstock.wording import plural

if TYPE_CHECKING:
    from penstock.config.project import LocalCluster
    from penstock.system.part import Step
    from penstock.system.system import Outcome, System

_NOT_RUNNING = 4


def up(
    context: typer.Context,
    names: system.PartNames = None,
    nodes: Annotated[int | None, typer.Option(min=1, max=9, help="Nodes of a new cluster; 1 by default.")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=45_000, help="Client port of the first node; 0 picks free ones.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on and announce; 127.0.0.1 by default.")] = None,
    secure: Annotated[bool | None, typer.Option("--secure/--no-secure", help="TLS, SCRAM users, ACLs.")] = None,
    heap: Annotated[str | None, typer.Option(help="Java heap of each node; 512MB by default.")] = None,
    registry: Annotated[bool, typer.Option("--registry", help="A schema registry, too.")] = False,
    connect: Annotated[bool, typer.Option("--connect", help="Kafka Connect, too.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the plan.")] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Start Kafka and what penstock.yaml has around it, or only these parts and what they need; plan first.

    Each is ready when it has handled a real request. What runs already is restarted only if its settings differ.
    """
    current = session(context)
    said = _said({"nodes": nodes, "port": port, "host": host, "secure": secure, "heap": heap})
    flags = [name for name, is_meant in {"registry": registry, "connect": connect}.items() if is_meant]
    relay = system.ProgressRelay()
    whole = system.make(current, system.wanted(current, [*(names or ()), *flags]), relay)
    _warn_of_connectors(current, whole)
    chosen = [*(name for name in names if name != system.KAFKA), *flags] if names else None
    steps = whole.plan(chosen)
    system.require_extras(steps)
    plan = [*_kafka_step(current), *steps]
    if dry_run:
        print_rows(plan, as_json=as_json)
        todo = sum(step.action != "keep" for step in plan)
        say(f"{plural(todo, 'change')} planned, none made" if todo else "nothing to do")
        return
    if steps and not as_json:
        system.show_plan(plan)
    if gone := [step.part for step in steps if step.action == "stop"]:
        confirm(f"{', '.join(gone)} will be stopped: no longer in penstock.yaml. Continue?", yes=yes)
    started: dict[str, Any] = {}
    if current.settings.external is None:
        started = _start_kafka(current, said)
        _make_topics(current, yes=yes)
    elif not steps:
        current.own_cluster()  # which says that it is not ours to start
    else:
        started = {"bootstrap_servers": current.settings.external.bootstrap_servers}
    with bar("looking at the parts") as shown:
        relay.to = shown.describe
        outcome = whole.carry_out(steps, say)
    addresses = _addresses(current, outcome)
    if as_json:
        print_json({**started, "services": addresses, "parts": outcome.ready})
    elif "console" in addresses:
        say(f"watch all of it at {addresses['console']}")
    for error in outcome.failed.values():
        say_error(str(error), exit_code=error.exit_code, as_json=as_json)
    if outcome.failed:
        raise typer.Exit(next(iter(outcome.failed.values())).exit_code)


def _warn_of_connectors(current: Session, whole: "System") -> None:
    """Name the connectors of the project file that nothing will run."""
    idle = [] if "connect" in whole.parts else list(current.settings.project.connectors)
    if idle:
        say(
            f"warning: the connectors {', '.join(idle)} are left out, because the project has no Kafka Connect:"
            " add `connect:` to `services` in penstock.yaml, or run: penstock up --connect"
        )


def _said(chosen: dict[str, Any]) -> "LocalCluster":
    """Return the cluster as the command line describes it."""
    from pydantic import ValidationError

    from penstock.config.project import LocalCluster

    try:
        return LocalCluster.model_validate({name: value for name, value in chosen.items() if value is not None})
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        raise BadInput(f"--{problem['loc'][0]}: {in_words(problem)}") from None


def _kafka_step(current: Session) -> "list[Step]":
    from penstock.system.part import Step

    if current.settings.external is not None:
        return []
    states = [row["state"] for row in parts.nodes(current)]
    if states and all(state == "running" for state in states):
        return [Step(part=system.KAFKA, kind="cluster", action="keep", detail="running")]
    return [Step(part=system.KAFKA, kind="cluster", action="start", detail="not running")]


def _start_kafka(current: Session, said: "LocalCluster") -> dict[str, Any]:
    """Start the nodes that do not run; return a summary of the cluster."""
    from penstock.config.project import LocalCluster

    in_file = current.settings.project.cluster
    requested = in_file if isinstance(in_file, LocalCluster) else LocalCluster()
    given = said.model_dump(exclude_unset=True)
    with bar("looking at what is there") as shown:
        cluster = current.own_cluster(shown.describe, may_make=True)
        try:
            state = cluster.up(requested.model_copy(update=given))
        except KeyboardInterrupt:
            known = cluster.state()
            alive = [str(node.id) for node in cluster.running(known)] if known else []
            say(
                f"node {', '.join(alive)} is still starting. Stop with: penstock down; wait for it with: penstock up"
                if alive
                else "nothing was started"
            )
            raise
        except Conflict as taken:
            try:
                current.settings.require_no_cluster_above()
            except NotFound as above:
                where = f"There {above.what.removeprefix('there ')}"
                fix = f"{where}: change to that folder, or choose another port with: penstock up --port PORT"
                raise Conflict(taken.what, safe=taken.safe, fix=fix) from None
            raise
    if not is_loopback(state.host) and not state.secure:
        say(f"warning: anybody who reaches {state.host} can read and write; use --secure")
    say(f"Kafka {state.kafka_version} is ready at {state.bootstrap_servers}")
    for name in [name for name in given if getattr(in_file, name, None) not in {None, given[name]}]:
        say(f"warning: {current.settings.project_file} has another {name}: for the next up, set it to {given[name]}")
    return {"bootstrap_servers": state.bootstrap_servers, **state.model_dump()}


def _make_topics(current: Session, *, yes: bool) -> None:
    """Make and change topics as the project file says."""
    from penstock.kafka import apply

    wanted = current.settings.project.topics
    if not wanted:
        return
    admin = current.admin()
    todo = [change for change in apply.plan(admin, wanted) if change.action != "keep"]
    if risky := [change.topic for change in todo if change.deletes_records]:
        confirm(f"Records of {', '.join(risky)} may be deleted by the new settings. Continue?", yes=yes)
    for change in todo:
        say(f"topic '{change.topic}': {change.action}, {change.detail}")
    apply.carry_out(admin, todo, wanted)


def _addresses(current: Session, outcome: "Outcome") -> dict[str, str]:
    from penstock.config.local_services import local_service
    from penstock.config.service_names import SERVICE_NAMES

    return {name: local_service(current.settings.home, name).url for name in SERVICE_NAMES if name in outcome.ready}


def down(
    context: typer.Context,
    names: system.PartNames = None,
    as_json: Json = False,
) -> None:
    """Stop what `up` has started, Kafka last, or only these parts; the data stay."""
    from penstock.config.service_names import SERVICE_NAMES
    from penstock.operate.status import load_all

    current = session(context)
    if current.settings.external is None:
        current.own_cluster().existing()
    parts_stopped: list[str] = []
    stopped: list[int] = []
    try:
        with bar("stopping") as shown:
            whole = system.make(current, system.known(current), shown.describe)
            parts_stopped = whole.stop([name for name in names if name != system.KAFKA] if names else None)
        if parts_stopped:
            say(f"stopped {', '.join(parts_stopped)}")
        if system.KAFKA in names if names else current.settings.external is None or not parts_stopped:
            with bar("stopping") as shown:
                stopped = current.own_cluster(shown.describe).down()
            shown_nodes = ", ".join(f"node {each}" for each in stopped)
            say(f"stopped {shown_nodes}" if stopped else "Kafka was not running")
    except KeyboardInterrupt as interrupt:
        interrupt.add_note(_left_running(current))
        raise
    for each in load_all(session(context).settings.home):
        if not names and each.state in {"starting", "running", "waiting"}:
            say(f"pipeline '{each.pipeline}' still runs. Stop it with: penstock pipeline stop {each.pipeline}")
    if as_json:
        services = [name for name in parts_stopped if name in SERVICE_NAMES]
        others = [name for name in parts_stopped if name not in SERVICE_NAMES]
        print_json({"stopped": stopped, "services": services, "pipelines": others})


def _left_running(current: Session) -> str:
    """Return what an interrupted `down` leaves, some of it about to end, and what to type."""
    left = system.make(current, system.known(current), lambda _line: None).running()
    left += [f"node {row['node']} of Kafka" for row in parts.nodes(current) if row["state"] == "running"]
    if not left:
        return "nothing runs any more"
    remedy = "Stop the rest with: penstock down; look with: penstock status"
    return f"not ended yet: {', '.join(left)}. The data are safe. {remedy}"


def restart(
    context: typer.Context,
    part: system.PartName = None,
    node: Annotated[int | None, typer.Option(help="Only this node.")] = None,
    as_json: Json = False,
) -> None:
    """Restart the nodes one after the other, without an outage where there are three; or one part."""
    if part not in {None, system.KAFKA}:
        with bar(f"restarting {part}") as shown:
            address = system.restart(session(context), str(part), shown.describe)
        if as_json:
            print_json({"part": part, "url": address})
        return
    with bar("restarting") as shown:
        state = session(context).own_cluster(shown.describe).restart(node)
    say(f"Kafka {state.kafka_version} is ready at {state.bootstrap_servers}")
    if as_json:
        print_json(state)


def status(
    context: typer.Context,
    watch: Annotated[bool, typer.Option("--watch", help="Keep showing every part, until Ctrl-C.")] = False,
    as_json: Json = False,
) -> None:
    """Show nodes, controller, replicas and every part of the project; exit code 4 unless everything is up."""
    current = session(context)
    if watch:
        # The pipeline that fills the lineage store has the name of the service that answers from it.
        live.watch(parts.WATCHED, lambda: parts.watched(current), known_by=2, as_json=as_json)
    nodes = parts.nodes(current)
    try:
        from penstock.kafka import cluster as kafka_cluster

        detail = kafka_cluster.describe(current.admin())
        problem = ""
    except PenstockError as error:
        detail, problem = None, str(error)
    groups = {"services": parts.services(current)}
    groups |= {"connectors": parts.connectors(current), "pipelines": parts.pipelines(current)}
    rows = [row for group in groups.values() for row in group]
    healthy = detail is not None and not detail.offline and all(map(parts.is_fine, [*nodes, *rows]))
    if as_json:
        print_json({"healthy": healthy, "nodes": nodes, **groups, "cluster": detail, "problem": problem or None})
    else:
        for group in (nodes, *groups.values()):
            if group:
                print_table(list(group[0]), [list(row.values()) for row in group])
        if detail is not None:
            say(
                f"cluster {detail.cluster_id}: {plural(len(detail.nodes), 'node')} up,"
                f" {plural(detail.topics, 'topic')}, {plural(detail.partitions, 'partition')},"
                f" {len(detail.under_replicated)} under-replicated,"
                f" {len(detail.offline)} offline; controller requests go to node {detail.controller}"
            )
        else:
            say(problem)
    if not healthy:
        raise typer.Exit(_NOT_RUNNING)


def logs(
    context: typer.Context,
    part: system.PartName = None,
    node: Annotated[int, typer.Option(help="Which node.")] = 1,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, help="How many of the last lines.")] = 50,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing lines as they arrive.")] = False,
    as_json: Json = False,
) -> None:
    """Print the log of a node, of a service or of a pipeline."""
    if part in {None, system.KAFKA}:
        path, whose = session(context).own_cluster().node(node).log, f"node {node}"
    else:
        path, whose = system.log(session(context), str(part)), part
    if not path.is_file():
        raise NotFound(f"{whose} has no log at {path}", fix="Start it with: penstock up")
    if as_json:
        which = {"part": part} if part else {"node": node}
        print_json({**which, "path": str(path), "lines": last_lines(path, lines)})
        return
    live.print_log(path, lines=lines, goes_on=follow)
