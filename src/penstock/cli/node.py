"""penstock node add | remove: growing and shrinking the running cluster."""

from typing import Annotated

import typer

from penstock.cli.output import Json, Yes, confirmed, print_json, print_rows, say
from penstock.cli.progress import bar
from penstock.cli.session import session

app = typer.Typer(help="Grow and shrink the running cluster.", no_args_is_help=True)


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
    node: Annotated[int, typer.Argument(help="Id of the node.")],
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Move everything off a broker, then stop it and strike it from the cluster."""
    from penstock.broker import rebalance
    from penstock.broker.entrance import internal_connection
    from penstock.kafka.admin import Admin

    cluster = session(context).own_cluster()
    cluster.require_removable(node)
    admin = Admin(internal_connection(cluster.folder, cluster.existing()))
    moves = rebalance.plan(admin, leaving=[node])
    print_rows(moves, as_json=as_json, empty=f"node {node} holds no partition")
    if not confirmed(f"Move these and remove node {node}?", yes=yes):
        return
    classpath = cluster.classpath()
    with bar(f"moving partitions off node {node}") as shown:
        rebalance.execute(admin, moves, classpath, shown.update)
        cluster.forget_node(node)
        rebalance.unregister(Admin(internal_connection(cluster.folder, cluster.existing())), node, classpath)
    say(f"node {node} is gone, with no record lost; its folder is kept as removed-node-{node}")
