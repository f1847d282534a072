from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penstock.errors import Transient
from penstock.lineage.sign_in import passwords
from penstock.lineage.sign_in.passwords import UsersFile
from penstock.lineage.sign_in.tries import Tries


def test_of_guesses_that_come_at_once_three_are_looked_at() -> None:
    tries = Tries()
    with ThreadPoolExecutor(20) as pool:
        waits = list(pool.map(lambda _: tries.begin("ann", "10.0.0.1"), range(100)))

    assert 3 == waits.count(0.0)


def test_who_fails_elsewhere_keeps_nobody_out() -> None:
    tries = Tries()
    strangers = [tries.begin("ann", "10.0.0.1") > 0 for _ in range(5)]

    assert [False, False, False, True, True] == strangers
    assert 0 == tries.begin("ann", "10.0.0.2")


def test_a_success_forgets_the_failures() -> None:
    tries = Tries()
    for _ in range(3):
        tries.begin("ann", "here")
    tries.succeeded("ann", "here")

    assert 0 == tries.begin("ann", "here")


def test_a_flood_of_sign_ins_does_not_hold_all_threads(tmp_path: Path) -> None:
    users = UsersFile.of(tmp_path)
    users.put("ann", "a password")
    for _ in range(8):
        assert passwords._in_line.acquire(blocking=False)
    try:
        with pytest.raises(Transient, match="too many people sign in at once"):
            users.accepts("ann", "a password")
    finally:
        passwords._in_line.release(8)
    assert users.accepts("ann", "a password")
