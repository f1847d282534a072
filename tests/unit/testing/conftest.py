"""What one test of the kit imported and saw is nothing to the next."""

import sys
from collections.abc import Iterator

import pytest

from support.kit import times


@pytest.fixture(autouse=True)
def nothing_of_other_tests() -> Iterator[None]:
    path = list(sys.path)
    times.clear()
    yield
    times.clear()
    sys.path[:] = path
