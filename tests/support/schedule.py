"""In which order several workers run the tests, so that none of them waits for another's long test at the end.

pytest-xdist gives each worker an equal share of the list, and one that is done takes from the end of another's share.
So each share begins with what takes long, and the servers that only some tests need run in one of the workers alone;
unit tests, of which each takes no time, stand last and fill up whatever is left. What is alike stays shuffled.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

_HOMES = (
    ("three_nodes",),
    ("secure_kafka", "careless_kafka"),
    ("rabbitmq", "redis_server", "endpoint"),
    ("registry", "connect"),
)
"""Servers that run in one worker, by the fixtures that lead to them."""


@dataclass(frozen=True)
class Planned:
    """A test as the schedule knows it."""

    place: int
    module: str
    fixtures: frozenset[str]

    @property
    def is_unit(self) -> bool:
        return self.module.startswith("tests/unit/")

    @property
    def seconds(self) -> float:
        """About what such a test takes; only the proportions matter."""
        if self.module.startswith("tests/faults/"):
            return 25.0
        if self.fixtures & {"lab", "spark"}:
            return 3.0
        return 1.0 if self.fixtures & {"kafka", "postgres", *(name for home in _HOMES for name in home)} else 10.0


def ordered(tests: Sequence[Planned], workers: int) -> list[int]:
    """Return the places of the tests in the order in which they are to be shared out."""
    units = [test.place for test in tests if test.is_unit]
    modules = [
        list(found) for _, found in groupby((test for test in tests if not test.is_unit), lambda test: test.module)
    ]
    shares: list[list[list[Planned]]] = [[] for _ in range(workers)]
    busy_s = [0.0] * workers
    for module in sorted(modules, key=lambda module: (_home(module) is None, -_seconds(module))):
        home = _home(module)
        worker = busy_s.index(min(busy_s)) if home is None else home % workers
        shares[worker].append(module)
        busy_s[worker] += _seconds(module)
    order: list[int] = []
    for number, share in enumerate(shares):  # each as large as pytest-xdist makes it
        size = (len(tests) - len(order)) // (workers - number)
        first = [test.place for module in sorted(share, key=_band) for test in module]
        fill = max(0, size - len(first)) if number < workers - 1 else len(units)
        order += first + units[:fill]
        del units[:fill]
    return order


def _home(module: list[Planned]) -> int | None:
    needed = frozenset[str]().union(*(test.fixtures for test in module))
    return next((number for number, names in enumerate(_HOMES) if needed.intersection(names)), None)


def _seconds(module: list[Planned]) -> float:
    return sum(test.seconds for test in module)


def _band(module: list[Planned]) -> tuple[bool, float]:
    """Put what needs a server of this worker's first, and then what takes long."""
    return _home(module) is None, -max(test.seconds for test in module)
