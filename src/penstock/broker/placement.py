"""Where partitions should live: the fewest moves that even them out. Pure, so that it can be proved."""

from collections import Counter, defaultdict
from collections.abc import Collection

from penstock.errors import Conflict
from penstock.wording import plural

TopicPartition = tuple[str, int]
Placement = dict[TopicPartition, list[int]]


def plan(current: Placement, nodes: Collection[int]) -> Placement:
    """Return the partitions that should change, with their new replicas, the preferred leader first.

    Promises: the number of replicas stays; no node has two replicas of a partition; nodes that are not in `nodes` end
    empty; the replicas of each topic, then of all topics, then the leaders differ by at most one between nodes where
    single moves can achieve it; nothing moves without need.
    """
    spread = _Spread(current, sorted(nodes))
    spread.leave()
    spread.even_out()
    spread.even_out_leaders()
    return {
        topic_partition: replicas
        for topic_partition, replicas in spread.wanted.items()
        if replicas != current[topic_partition]
    }


class _Spread:
    """A placement in the making, with its counts kept up to date."""

    def __init__(self, current: Placement, nodes: list[int]) -> None:
        self.nodes = nodes
        self.wanted = {topic_partition: list(replicas) for topic_partition, replicas in sorted(current.items())}
        self.of_all: Counter[int] = Counter()
        self.of_topic: dict[str, Counter[int]] = defaultdict(Counter)
        for (topic, _), replicas in self.wanted.items():
            self.of_all.update(replicas)
            self.of_topic[topic].update(replicas)

    def _move(self, topic_partition: TopicPartition, source: int, target: int) -> None:
        replicas = self.wanted[topic_partition]
        replicas[replicas.index(source)] = target
        for loads in (self.of_all, self.of_topic[topic_partition[0]]):
            loads[source] -= 1
            loads[target] += 1

    def _emptiest(self, topic_partition: TopicPartition) -> int | None:
        """Return the node without a replica of this partition that holds least of its topic, then of all."""
        loads = self.of_topic[topic_partition[0]]
        free = [node for node in self.nodes if node not in self.wanted[topic_partition]]
        return min(free, key=lambda node: (loads[node], self.of_all[node], node), default=None)

    def leave(self) -> None:
        """Move every replica off the nodes that go."""
        for topic_partition, replicas in self.wanted.items():
            for source in [node for node in replicas if node not in self.nodes]:
                target = self._emptiest(topic_partition)
                if target is None:
                    raise Conflict(
                        f"{topic_partition[0]}/{topic_partition[1]} has {len(replicas)} replicas, and"
                        f" {plural(len(self.nodes), 'node')} would stay",
                        safe="No replica was given up",
                        fix="Add a node first, or delete the topic",
                    )
                self._move(topic_partition, source, target)

    def even_out(self) -> None:
        """Move one replica at a time from a fuller node to an emptier one, until no single move helps.

        It ends: each move lowers the sum of squares of a topic's loads, or keeps it and lowers that of all loads.
        """
        moved = True
        while moved:
            moved = False
            for topic_partition, replicas in self.wanted.items():
                loads = self.of_topic[topic_partition[0]]
                source = max(replicas, key=lambda node: (loads[node], self.of_all[node], node), default=None)
                target = self._emptiest(topic_partition)
                if source is None or target is None:
                    continue
                gap = loads[source] - loads[target]
                if gap > 1 or (gap == 1 and self.of_all[source] - self.of_all[target] > 1):
                    self._move(topic_partition, source, target)
                    moved = True

    def even_out_leaders(self) -> None:
        """Put another replica first where one node leads too much; that moves no data."""
        leads = Counter(replicas[0] for replicas in self.wanted.values() if replicas)
        changed = True
        while changed:
            changed = False
            for replicas in self.wanted.values():
                best = min(replicas, key=lambda node: (leads[node], node))
                if leads[replicas[0]] - leads[best] > 1:
                    leads[replicas[0]] -= 1
                    leads[best] += 1
                    replicas.remove(best)
                    replicas.insert(0, best)
                    changed = True
