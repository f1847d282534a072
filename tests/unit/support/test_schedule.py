"""How tests are shared out among workers."""

import random

import pytest

from support.schedule import Planned, ordered


def planned(*modules: tuple[str, int, set[str]]) -> list[Planned]:
    tests = [(name, frozenset(fixtures)) for name, count, fixtures in modules for _ in range(count)]
    return [Planned(place, name, fixtures) for place, (name, fixtures) in enumerate(tests)]


def shares(tests: list[Planned], workers: int) -> list[list[Planned]]:
    """Share the order out as pytest-xdist does at the beginning of a run."""
    left = [tests[place] for place in ordered(tests, workers)]
    found = []
    for number in range(workers):
        size = len(left) // (workers - number)
        found.append(left[:size])
        del left[:size]
    return found


SUITE = planned(
    ("tests/unit/test_a.py", 40, set()),
    ("tests/integration/test_own_servers.py", 2, set()),
    ("tests/faults/test_nodes.py", 3, {"three_nodes", "cli"}),
    ("tests/integration/test_lab.py", 9, {"lab", "kafka", "spark"}),
    ("tests/integration/test_drills.py", 2, {"three_nodes"}),
    ("tests/unit/test_b.py", 30, {"tmp_path"}),
    ("tests/faults/test_chains.py", 2, {"kafka"}),
    ("tests/integration/test_secure.py", 5, {"secure_kafka"}),
    ("tests/integration/test_clients.py", 9, {"kafka"}),
)


@pytest.mark.parametrize("workers", [1, 2, 3, 8])
def test_every_test_runs_once_in_any_number_of_workers(workers: int) -> None:
    shuffled = random.Random(workers).sample(SUITE, len(SUITE))
    tests = [Planned(place, test.module, test.fixtures) for place, test in enumerate(shuffled)]

    assert list(range(len(tests))) == sorted(ordered(tests, workers))


def test_what_needs_a_server_of_its_own_kind_is_in_one_worker() -> None:
    for fixture in ("three_nodes", "secure_kafka"):
        assert 1 == len([share for share in shares(SUITE, 2) if any(fixture in test.fixtures for test in share)])


def test_each_worker_begins_with_what_takes_long_and_ends_with_unit_tests() -> None:
    for share in shares(SUITE, 3):
        assert "unit" not in share[0].module
        kinds = [test.is_unit for test in share]
        assert sorted(kinds) == kinds
        assert share[-1].is_unit


def test_tests_of_a_module_stay_together_in_the_order_in_which_they_came() -> None:
    order = [SUITE[place] for place in ordered(SUITE, 2) if not SUITE[place].is_unit]

    assert 7 == len(
        [
            test
            for before, test in zip([None, *order], order, strict=False)
            if not before or before.module != test.module
        ]
    )
    for module in {test.module for test in order}:
        places = [test.place for test in order if test.module == module]
        assert sorted(places) == places


def test_without_unit_tests_nothing_is_lost_either() -> None:
    tests = planned(("tests/integration/test_lab.py", 5, {"lab"}), ("tests/faults/test_nodes.py", 1, {"three_nodes"}))

    assert [0, 1, 2, 3, 4, 5] == sorted(ordered(tests, 2))
