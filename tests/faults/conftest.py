"""Whatever a fault test starts, it also ends."""

from collections.abc import Iterator

import pytest

from support.drivers import end_leftovers


@pytest.fixture(autouse=True)
def no_driver_outlives_its_test() -> Iterator[None]:
    yield
    end_leftovers()
