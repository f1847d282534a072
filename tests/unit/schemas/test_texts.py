import time
from collections.abc import Iterator

import pytest

from penstock.schemas.client import RegistryClient
from penstock.schemas.texts import diff

from support.registry_stub import RegistryStub, registry_stub


@pytest.fixture
def stub() -> Iterator[RegistryStub]:
    with registry_stub() as running:
        yield running


def test_what_changed_in_a_long_schema_is_one_part_of_it(stub: RegistryStub) -> None:
    for changed in ("before", "after"):
        texts = [str(number) for number in range(3_000)]
        stub.add("orders-value", {"enum": [*texts, changed, *texts]}, "JSON")
    _, lines = diff(RegistryClient(stub.registry), "orders-value")

    found = ["--- version 1", "+++ version 2", "@@ -3003,1 +3003,1 @@", '-    "before",', '+    "after",']
    assert found == lines


def test_versions_that_would_take_hours_to_compare_line_by_line_are_compared_at_once(stub: RegistryStub) -> None:
    for factor in (1, 7):
        stub.add("orders-value", {"enum": [str(number * factor % 150) for number in range(20_000)]}, "JSON")
    begun = time.thread_time()
    _, lines = diff(RegistryClient(stub.registry), "orders-value")

    assert 39_000 < len(lines) < 40_100
    assert time.thread_time() - begun < 2


def test_long_versions_that_are_alike_differ_in_nothing(stub: RegistryStub) -> None:
    stub.add("orders-value", {"enum": [str(number) for number in range(3_000)]}, "JSON")

    assert [] == diff(RegistryClient(stub.registry), "orders-value", 1, 1)[1]
