"""Where partitions should live: the fewest moves that even them out. Pure, so that it can be proved."""

from collections import Counter
from collections.abc import Collection

from penstock.errors import Conflict

Place = tuple[str, int]
Placement = dict[Place, list[int]]


def plan(current: Placement, nodes: Collection[int]) -> Placement:
    """Give the partitions that should change, with their new replicas, the preferred leader first.

    Promises: the number of copies stays; no node has two copies of a partition; nodes that are not in `nodes`
    end empty; the copies of each topic, then of all topics, then the leaders differ by at most one between nodes
    where single moves can achieve it; nothing moves that need not.
    """
    wanted = {place: list(replicas) for place, replicas in current.items()}
    _leave(wanted, nodes)
    _even_out(wanted, nodes)
    _even_out_leaders(wanted, nodes)
    return {place: replicas for place, replicas in wanted.items() if replicas != current[place]}


def _loads(placement: Placement, nodes: Collection[int], topic: str | None = None) -> Counter[int]:
    loads = Counter(dict.fromkeys(nodes, 0))
    for (name, _), replicas in placement.items():
        if topic in (None, name):
            loads.update(replicas)
    return loads


def _leave(placement: Placement, nodes: Collection[int]) -> None:
    """Move every copy off the nodes that go."""
    for place, replicas in sorted(placement.items()):
        for index, node in enumerate(replicas):
            if node in nodes:
                continue
            candidates = [other for other in nodes if other not in replicas]
            if not candidates:
                raise Conflict(
                    f"{place[0]}/{place[1]} has {len(replicas)} copies, and only {len(nodes)} node(s) would be left",
                    safe="Nothing was moved",
                    fix="Add a node first, or delete the topic",
                )
            of_topic, of_all = _loads(placement, nodes, place[0]), _loads(placement, nodes)
            replicas[index] = min(candidates, key=lambda other: (of_topic[other], of_all[other], other))


def _even_out(placement: Placement, nodes: Collection[int]) -> None:
    """Move one copy at a time from a fuller node to an emptier one, until no single move helps."""
    while (move := _best_move(placement, nodes)) is not None:
        place, source, target = move
        replicas = placement[place]
        replicas[replicas.index(source)] = target


def _best_move(placement: Placement, nodes: Collection[int]) -> tuple[Place, int, int] | None:
    of_all = _loads(placement, nodes)
    by_topic = {topic: _loads(placement, nodes, topic) for topic in {name for name, _ in placement}}
    for place, replicas in sorted(placement.items()):
        loads = by_topic[place[0]]
        for source in sorted(replicas, key=lambda node: (-loads[node], -of_all[node], node)):
            for target in sorted(set(nodes) - set(replicas), key=lambda node: (loads[node], of_all[node], node)):
                gap = loads[source] - loads[target]
                if gap > 1 or (gap == 1 and of_all[source] - of_all[target] > 1):
                    return place, source, target
    return None


def _even_out_leaders(placement: Placement, nodes: Collection[int]) -> None:
    """Put another copy first where one node leads too much; that moves no data."""
    leads = Counter(dict.fromkeys(nodes, 0))
    leads.update(replicas[0] for replicas in placement.values())
    changed = True
    while changed:
        changed = False
        for _, replicas in sorted(placement.items()):
            best = min(replicas, key=lambda node: (leads[node], node))
            if leads[replicas[0]] - leads[best] > 1:
                leads[replicas[0]] -= 1
                leads[best] += 1
                replicas.remove(best)
                replicas.insert(0, best)
                changed = True
