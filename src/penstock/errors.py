"""The whole error tree. `Transient` and `Terminal` alone decide whether something is tried again.

PenstockError
├── Transient                   wait and retry, nothing is wrong with the request
│   ├── BrokerUnavailable  4    no node answers, or not in time
│   ├── QueueFull          4    the producer's queue stayed full: slow down, nothing was dropped
│   └── OwnershipLost      4    a rebalance moved the partitions: the batch is delivered again elsewhere
└── Terminal                    the same call will fail again
    ├── BadInput           2    what the user gave cannot be used
    ├── NotFound           3    the topic, group, user or node is not there
    ├── Refused            5    the cluster does not let this client in, or not do this
    ├── Conflict           6    it contradicts what is there already
    ├── Unprepared         7    this machine lacks Java, jars, memory or disk
    └── DeliveryFailed     8    records that were sent are not acknowledged

The number is the command line's exit code. 0 is success, 1 means that the command ran and found
something wrong (`penstock doctor`), 70 is a defect in Penstock, 130 is Ctrl-C.
"""

from typing import ClassVar


class PenstockError(Exception):
    """An error for users: one line that says what happened, what is safe and what to run next."""

    exit_code: ClassVar[int] = 70

    def __init__(self, what: str, *, safe: str = "", fix: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.safe = safe
        self.fix = fix

    def __str__(self) -> str:
        """Render the one line."""
        parts = (self.what, self.safe, self.fix)
        return ". ".join(part.strip().rstrip(".") for part in parts if part)


class Transient(PenstockError):
    """Wait and try again: the request itself is fine."""


class Terminal(PenstockError):
    """Trying again gives the same answer: somebody has to change something first."""


class BrokerUnavailable(Transient):
    """No node answers, or not within the time allowed."""

    exit_code = 4


class QueueFull(Transient):
    """The producer's bounded queue stayed full; the record was not taken, and none was dropped."""

    exit_code = 4


class OwnershipLost(Transient):
    """A rebalance gave the partitions to another member before the commit; the batch comes again there."""

    exit_code = 4


class BadInput(Terminal):
    """What the user gave cannot be used as it is."""

    exit_code = 2


class NotFound(Terminal):
    """The named topic, group, user, node or file is not there."""

    exit_code = 3


class Refused(Terminal):
    """The cluster does not accept this client, or not this operation from it."""

    exit_code = 5


class Conflict(Terminal):
    """The request contradicts what exists: settings, a running process, a port, an active group."""

    exit_code = 6


class Unprepared(Terminal):
    """This machine lacks something: Java, jars, memory, disk."""

    exit_code = 7


class DeliveryFailed(Terminal):
    """Records were given to the producer and are not acknowledged by the topic."""

    exit_code = 8
