"""What is wrong with a component in a pipeline, said by the component itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from penstock.config.document import KeyPath


@dataclass(frozen=True)
class Problem:
    """What is wrong, with the key it is about. An error keeps a pipeline from starting, a warning does not."""

    level: Literal["error", "warning"]
    keys: KeyPath
    text: str

    def under(self, *keys: str | int) -> "Problem":
        """Return the problem of a part as one of the whole."""
        return Problem(self.level, (*keys, *self.keys), self.text)

    @classmethod
    def error(cls, text: str, *keys: str | int) -> "Problem":
        """Return what keeps the pipeline from starting."""
        return cls("error", keys, text)

    @classmethod
    def warning(cls, text: str, *keys: str | int) -> "Problem":
        """Return what looks like a mistake."""
        return cls("warning", keys, text)


class PipelineView(Protocol):
    """What a component may ask about the pipeline that it is in."""

    @property
    def is_stateful(self) -> bool:
        """Return whether it gives results that change, and not a row per event."""

    @property
    def has_changes(self) -> bool:
        """Return whether its rows are changes of a table, which a sink applies by key."""

    @property
    def reads_kafka(self) -> bool:
        """Return whether its events come from Kafka's topics."""

    @property
    def named_topics(self) -> Sequence[str]:
        """Return the topics that its events come from; none if they are found by a pattern, or are no topics."""

    @property
    def speed(self) -> str:
        """Return how it runs: scheduled, stream or realtime."""
