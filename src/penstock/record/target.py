"""What a sink writes to and a source reads from, so that the two can be compared."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Target:
    """One folder, topic or table. Equal ones are the same target."""

    kind: str
    """What it is, in a word: `folder`, `topic`, `table`."""
    name: str
    """Its whole name, with the server's where it has one. Holds no secret."""
    is_shared: bool = field(default=True, compare=False)
    """Whether two sinks of one pipeline may write to it."""

    def __str__(self) -> str:
        """Return its identity in a checkpoint."""
        return f"{self.kind} {self.name}"
