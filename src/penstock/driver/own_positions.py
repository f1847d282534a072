"""Distinguishing a driver's own moves of the sinks from those of another driver."""

from collections.abc import Iterable, Mapping

from penstock.delivery.sink_progress import PositionStore, SinkProgress
from penstock.record.positions import OffsetRange, Positions, require_unmoved


class OwnPositions:
    """Where this driver left each sink, and how far it has tried to move them since."""

    def __init__(self) -> None:
        self._left: dict[str, Positions] = {}
        self._tried: Positions = {}

    def trying(self, offset_ranges: Iterable[OffsetRange]) -> None:
        """Remember how far a batch may move the sinks, whether it gets there or not."""
        self._tried |= {
            each.source_partition: max(each.end, self._tried.get(each.source_partition, 0)) for each in offset_ranges
        }

    def left_at(self, left: dict[str, Positions]) -> None:
        """Remember where a batch that is committed left the sinks."""
        self._left, self._tried = left, {}

    def forget(self) -> None:
        """Forget everything, as at the start: who moved the sinks is being looked into."""
        self._left, self._tried = {}, {}

    def require_alone(self, progress: SinkProgress, stores: Mapping[str, PositionStore]) -> None:
        """Stop if a sink has moved since this driver's last batch: another driver is at work."""
        for name, left in self._left.items():
            found = {source_partition: at for source_partition, at in progress.expected[name].items() if at is not None}
            left_at = {
                source_partition: at
                for source_partition, at in left.items()
                if source_partition in progress.expected[name]
            }
            if stores[name].positions_expire:
                # Another driver would have left a position; where there is none, Kafka has forgotten it.
                left_at = {
                    source_partition: at for source_partition, at in left_at.items() if source_partition in found
                }
            # How far a batch got that failed, only the sink knows; but it cannot have got beyond its own end.
            own = {
                source_partition
                for source_partition, at in left_at.items()
                if at < found.get(source_partition, 0) <= self._tried.get(source_partition, 0)
            }
            require_unmoved(
                name,
                {source_partition: at for source_partition, at in left_at.items() if source_partition not in own},
                found,
            )
