"""penstock node list | add | remove | replace: growing, shrinking and repairing the running cluster."""

from typing import Annotated

import typer

from penstock.cli.output import Json, Yes, confirm, print_json, print_rows, print_table, say
from penstock.cli.progress import bar
from penstock.cli.session import session
from penstock.wording import plural

app = typer.Typer(help="Grow, shrink and repair the running cluster.", no_args_is_help=True)

NodeId = Annotated[int, typer.Argument(help="Id of the node.")]


@app.command("list")
def list_(context: typer.Context, as_json: Json = False) -> None:
    """List the nodes of the local cluster: state, role, port, memory."""
    from penstock.cli import parts

    current = session(context)
    current.own_cluster().existing()
    nodes = parts.nodes(current)
    if as_json:
        print_json(nodes)
    else:
        print_table(list(nodes[0]), [list(node.values()) for node in nodes])


@app.command()
def add(context: typer.Context, as_json: Json = False) -> None:
    """Add a broker; it holds nothing until `penstock topic rebalance`."""
    with bar("adding a node") as shown:
        node = session(context).own_cluster(shown.describe).add_node()
    say(f"node {node.id} is ready on port {node.client_port}; move partitions to it with: penstock topic rebalance")
    if as_json:
        print_json(node)


@app.command()
def remove(
    context: typer.Context,
    node: NodeId,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Move everything off a broker, then stop it and remove it from the cluster."""
    cluster = session(context).own_cluster()
    moves = cluster.plan_removal(node)
    print_rows(moves, as_json=as_json, empty=f"node {node} holds no partition")
    confirm(f"Move these and remove node {node}?", yes=yes)
    with bar(f"moving partitions off node {node}") as shown:
        cluster.remove_node(node, moves, shown.update)
    say(f"node {node} is gone, with no record lost; its folder is kept as removed-node-{node}")


@app.command()
def replace(
    context: typer.Context,
    node: NodeId,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Start a node that lost its data as an empty one; the other nodes fill it with their replicas."""
    cluster = session(context).own_cluster()
    gone = cluster.gone_with(node)
    say(
        f"only node {node} had the newest records of {plural(len(gone), 'partition')},"
        f" and they are lost: {', '.join(gone)}"
        if gone
        else f"every partition of node {node} has a leader elsewhere"
    )
    confirm(f"Format node {node} again, as an empty one?", yes=yes)
    with bar(f"filling node {node}"):
        cluster.replace_node(node)
    say(f"node {node} runs again, every replica in sync")
    if as_json:
        print_json({"node": node, "replaced": True, "lost": gone})
