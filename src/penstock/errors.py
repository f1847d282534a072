"""The whole error tree. `Transient` and `Terminal` alone decide whether something is tried again.

PenstockError
├── Transient              4    wait and retry, nothing is wrong with the request
│   ├── BrokerUnavailable       no node answers, or not in time
│   │   └── LeaderNotAvailable  a leader was just chosen and is not ready
│   ├── QueueFull               the producer's queue stayed full: slow down, nothing was dropped
│   ├── OwnershipLost           a rebalance moved the partitions: the batch is delivered again elsewhere
│   ├── SinkUnavailable         a database or a disk that a pipeline writes to does not answer
│   ├── RegistryUnavailable     a schema registry does not answer
│   ├── SchemaChanged           the registry has a newer schema than the one that a batch was begun with
│   └── BatchAborted            Spark lost tasks or staged rows for a reason that is no record's fault
│       └── SparkDied           Spark's JVM was killed or ran out of memory: a new driver goes on
└── Terminal                    the same call will fail again
    ├── BadInput           2    what the user gave cannot be used
    │   ├── Mistakes       2    mistakes in one file, a line each
    │   └── RecordsRefused 2    some records can never be taken; all the others of the call were
    ├── NotFound           3    the topic, group, user or node is not there
    ├── Refused            5    the cluster does not let this client in, or not do this
    ├── Conflict           6    it contradicts what is there already
    │   ├── PositionsMoved 6    another driver of the same pipeline has written to a sink
    │   └── FormatNotUnderstood  6  a file, a topic or a table is of another version of Penstock
    ├── EnvironmentNotReady 7   this machine lacks Java, jars, an extra, memory or disk
    ├── DeliveryFailed     8    records that were sent are not acknowledged
    ├── Discontinuity      9    going on would skip or double events; each says which command goes on
    │   ├── ClusterReplaced     another Kafka cluster answers than the one that the positions are of
    │   ├── CheckpointLost      the checkpoint is gone or unreadable, and the sinks hold data
    │   ├── PositionLost        a sink that had been written to has no position any more
    │   ├── TopicRecreated      the topic was deleted and recreated
    │   ├── RetentionPassed     records were deleted before they were read
    │   ├── StateOutdated       the state was computed with other steps than those in the pipeline file
    │   └── LogTruncated        the topic holds not all that was read from it
    └── PipelineHalted    10    a rule of the pipeline says to stop at data like these

The number is the command line's exit code. 0 is success, 1 means that the command ran and found
something wrong (`penstock doctor`), 70 is a defect in Penstock, 130 is Ctrl-C.
"""

import json
from collections.abc import Mapping, Sequence
from typing import ClassVar, Self


class PenstockError(Exception):
    """An error for users: one line that says what happened, what is safe and what to run next."""

    exit_code: ClassVar[int] = 70

    def __init__(self, what: str, *, safe: str = "", fix: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.safe = safe
        self.fix = fix

    def __str__(self) -> str:
        """Render the one line, whatever names and data are in it: it forges no second one in a log or on a terminal."""
        parts = (self.what, self.safe, self.fix)
        return one_line(". ".join(part.strip().rstrip(".") for part in parts if part))


def one_line(text: str) -> str:
    """Escape line breaks and whatever else does not show: control characters, those that turn the writing around."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape", "surrogatepass").decode() for each in text
    )


class Transient(PenstockError):
    """Wait and try again: the request itself is fine."""

    exit_code = 4


class Terminal(PenstockError):
    """A retry would fail again: something has to be changed first."""


class BrokerUnavailable(Transient):
    """No node answers, or not within the time allowed."""


class LeaderNotAvailable(BrokerUnavailable):
    """A leader was just chosen and is not ready: the nodes answer, and the same call succeeds in a moment."""


class QueueFull(Transient):
    """The producer's bounded queue stayed full; the record was not taken, and none was dropped."""


class OwnershipLost(Transient):
    """A rebalance gave the partitions to another member before the commit; the batch comes again there."""


class BadInput(Terminal):
    """What the user gave cannot be used as it is."""

    exit_code = 2


class Mistakes(BadInput):
    """Mistakes in one file: the text has a line for each."""

    def __str__(self) -> str:
        """Render a line for each."""
        return "\n".join(map(one_line, self.what.split("\n")))


class RecordsRefused(BadInput):
    """Some records of a call can never be taken, such as one too large; all the others were. `refused` numbers them."""

    def __init__(self, what: str, *, refused: Sequence[int] = (), safe: str = "", fix: str = "") -> None:
        super().__init__(what, safe=safe, fix=fix)
        self.refused = tuple(refused)


class NotFound(Terminal):
    """The named topic, group, user, node or file is not there."""

    exit_code = 3


class Refused(Terminal):
    """The cluster does not accept this client, or not this operation from it."""

    exit_code = 5


class Conflict(Terminal):
    """The request contradicts what exists: settings, a running process, a port, an active group."""

    exit_code = 6


class EnvironmentNotReady(Terminal):
    """This machine lacks something: Java, jars, an extra of Penstock, memory, disk."""

    exit_code = 7


class DeliveryFailed(Terminal):
    """Records were given to the producer and are not acknowledged by the topic."""

    exit_code = 8


class SinkUnavailable(Transient):
    """A database or a disk that a pipeline writes to does not answer; no record is to blame."""


class RegistryUnavailable(Transient):
    """A schema registry does not answer, or only with errors of its own; no record is to blame."""


class SchemaChanged(Transient):
    """A record's schema is newer than the columns of the batch; the batch runs again with the new columns."""

    _BROUGHT = "records bring new columns: "

    @classmethod
    def by_records(cls, columns: Mapping[str, str]) -> Self:
        """Return what a task raises for columns that only the records tell: their names with types of Spark SQL's."""
        return cls(cls._BROUGHT + json.dumps(dict(columns)))

    @property
    def columns(self) -> dict[str, str]:
        """The columns that records have brought, also if the error came out of Spark as text; none of a registry's."""
        if not self.what.startswith(self._BROUGHT):
            return {}
        brought: dict[str, str] = json.loads(self.what.removeprefix(self._BROUGHT))
        return brought


class BatchAborted(Transient):
    """Spark lost tasks, or what they had staged is gone; the batch runs again from its start."""


class SparkDied(BatchAborted):
    """Spark's JVM was killed or ran out of memory; this driver ends, and the next one goes on where it was."""


class PositionsMoved(Conflict):
    """A sink does not stand where this driver left it: another driver of the pipeline has written there."""


class FormatNotUnderstood(Conflict):
    """What Penstock has written is of a newer or older format version than this Penstock understands."""


class Discontinuity(Terminal):
    """Continuing would skip or duplicate events, so a person has to decide; until then nothing is changed."""

    exit_code = 9


class CheckpointLost(Discontinuity):
    """The checkpoint is gone or unreadable, and the sinks show that the pipeline has run before."""


class PositionLost(Discontinuity):
    """A sink that had been written to has no position any more: its table was dropped or replaced."""


class ClusterReplaced(Discontinuity):
    """The Kafka cluster that answers is not the cluster that the positions belong to."""


class StateOutdated(Discontinuity):
    """The state of a stateful pipeline was computed with other steps than those in the pipeline file."""


class TopicRecreated(Discontinuity):
    """The topic was deleted and recreated: offsets mean other records now."""


class RetentionPassed(Discontinuity):
    """Records were deleted from the topic before they were read."""


class LogTruncated(Discontinuity):
    """The topic holds less than was read from it, or others: a leader without the newest records was elected."""


class PipelineHalted(Terminal):
    """An expectation with `otherwise: fail`, or a step that fails on every record."""

    exit_code = 10


def interruption_in(error: BaseException) -> KeyboardInterrupt | None:
    """Return the Ctrl-C, or whatever else a signal handler raised, that an error was caused by; None if there was none.

    confluent-kafka runs Python inside its calls. What a handler raises there comes out as a `SystemError`.
    """
    found = error.__cause__ if isinstance(error, SystemError) else error
    return found if isinstance(found, KeyboardInterrupt) else None
