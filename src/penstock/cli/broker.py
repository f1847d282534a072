"""penstock up, down, status, logs, restart: a real Kafka on this machine."""

from typing import Annotated

import typer

from penstock.cli import live
from penstock.cli.output import Json, print_json, print_table, say
from penstock.cli.progress import bar
from penstock.cli.session import Session, session
from penstock.config.complaints import in_words
from penstock.errors import BadInput, NotFound, PenstockError
from penstock.loopback import is_loopback

_NOT_RUNNING = 4


def up(
    context: typer.Context,
    nodes: Annotated[int | None, typer.Option(min=1, max=9, help="Nodes of a new cluster; 1 by default.")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=45_000, help="Client port of the first node; 0 picks free ones.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on and announce; 127.0.0.1 by default.")] = None,
    secure: Annotated[bool | None, typer.Option("--secure/--no-secure", help="TLS, SCRAM users, ACLs.")] = None,
    heap: Annotated[str | None, typer.Option(help="Java heap of each node; 512MB by default.")] = None,
    as_json: Json = False,
) -> None:
    """Start Kafka; done when every node has taken and given back a record."""
    from pydantic import ValidationError

    from penstock.config.project import LocalCluster

    chosen = {"nodes": nodes, "port": port, "host": host, "secure": secure, "heap": heap}
    current = session(context)
    in_file = current.settings.project.cluster
    try:
        said = LocalCluster.model_validate({name: value for name, value in chosen.items() if value is not None})
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        raise BadInput(f"--{problem['loc'][0]}: {in_words(problem)}") from None
    wish = in_file if isinstance(in_file, LocalCluster) else LocalCluster()
    wish = wish.model_copy(update=said.model_dump(exclude_unset=True))
    with bar("looking at what is there") as shown:
        cluster = current.own_cluster(shown.describe)
        try:
            state = cluster.up(wish)
        except KeyboardInterrupt:
            known = cluster.state()
            alive = [str(node.id) for node in cluster.running(known)] if known else []
            say(
                f"node {', '.join(alive)} goes on starting. Stop with: penstock down; wait for it with: penstock up"
                if alive
                else "nothing was started"
            )
            raise
    if not is_loopback(state.host) and not state.secure:
        say(f"warning: anybody who reaches {state.host} can read and write; use --secure")
    say(f"Kafka {state.kafka_version} is ready at {state.bootstrap_servers}")
    given = said.model_dump(exclude_unset=True)
    for name in [name for name in given if getattr(in_file, name, None) not in {None, given[name]}]:
        say(f"warning: {current.settings.project_file} has another {name}: for the next up, set it to {given[name]}")
    if as_json:
        print_json({"bootstrap_servers": state.bootstrap_servers, **state.model_dump()})


def down(context: typer.Context, as_json: Json = False) -> None:
    """Stop Kafka; the data stay."""
    from penstock.operate.status import load_all

    with bar("stopping") as shown:
        stopped = session(context).own_cluster(shown.describe).down()
    say(f"stopped node(s) {', '.join(map(str, stopped))}" if stopped else "Kafka was not running")
    for each in load_all(session(context).settings.home):
        if each.state in {"starting", "running", "waiting"}:
            say(f"pipeline '{each.pipeline}' still runs. Stop it with: penstock pipeline stop {each.pipeline}")
    if as_json:
        print_json({"stopped": stopped})


def restart(
    context: typer.Context,
    node: Annotated[int | None, typer.Option(help="Only this node.")] = None,
    as_json: Json = False,
) -> None:
    """Restart the nodes one after the other, without an outage where there are three."""
    with bar("restarting") as shown:
        state = session(context).own_cluster(shown.describe).restart(node)
    say(f"Kafka {state.kafka_version} is ready at {state.bootstrap_servers}")
    if as_json:
        print_json(state)


def status(context: typer.Context, as_json: Json = False) -> None:
    """Show nodes, controller and replicas; exit code 4 unless everything is up."""
    current = session(context)
    nodes = [] if current.settings.external is not None else _local_nodes(current)
    try:
        from penstock.kafka import cluster as kafka_cluster

        detail = kafka_cluster.describe(current.admin())
        problem = ""
    except PenstockError as error:
        detail, problem = None, str(error)
    healthy = detail is not None and not detail.offline and all(node["state"] == "running" for node in nodes)
    if as_json:
        print_json({"healthy": healthy, "nodes": nodes, "cluster": detail, "problem": problem or None})
    else:
        if nodes:
            print_table(list(nodes[0]), [list(node.values()) for node in nodes])
        if detail is not None:
            say(
                f"cluster {detail.cluster_id}: {len(detail.nodes)} node(s) up, {detail.topics} topics,"
                f" {detail.partitions} partitions, {len(detail.under_replicated)} under-replicated,"
                f" {len(detail.offline)} offline; controller requests go to node {detail.controller}"
            )
        else:
            say(problem)
    if not healthy:
        raise typer.Exit(_NOT_RUNNING)


def _local_nodes(current: Session) -> list[dict[str, str | int | None]]:
    cluster = current.cluster()
    known = cluster.state()
    rows: list[dict[str, str | int | None]] = []
    for node in known.nodes if known else ():
        process = cluster.node(node.id).process()
        rows.append(
            {
                "node": node.id,
                "state": "running" if process else "stopped",
                "role": "broker and controller" if node.controller else "broker",
                "port": node.client_port,
                "pid": process.pid if process else None,
                "memory_mb": process.memory_info().rss // 10**6 if process else None,
                "log": str(cluster.node(node.id).log),
            }
        )
    return rows


def logs(
    context: typer.Context,
    node: Annotated[int, typer.Option(help="Which node.")] = 1,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, help="How many of the last lines.")] = 50,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as lines arrive.")] = False,
    as_json: Json = False,
) -> None:
    """Print what a node has to say."""
    path = session(context).own_cluster().node(node).log
    if not path.is_file():
        raise NotFound(f"node {node} has no log at {path}", fix="Start it with: penstock up")
    if as_json:
        print_json({"node": node, "path": str(path), "lines": live.last_lines(path, lines)})
        return
    live.print_log(path, lines=lines, goes_on=follow)
