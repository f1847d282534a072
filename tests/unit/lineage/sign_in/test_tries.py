from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from penstock.errors import Transient
from penstock.lineage.sign_in import passwords
from penstock.lineage.sign_in.passwords import UsersFile
from penstock.lineage.sign_in.tries import Tries
from penstock.testing.fake_clock import FakeClock


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


@pytest.mark.parametrize(
    ("address", "another"),
    [
        ("127.0.0.1", "127.9.8.7"),
        ("127.0.0.1", "::1"),
        ("2001:db8::1", "2001:db8::ffff:2"),
        ("10.0.0.1", "::ffff:10.0.0.1"),
    ],
)
def test_who_takes_another_of_their_own_addresses_has_no_more_tries(address: str, another: str) -> None:
    tries = Tries()
    for _ in range(3):
        tries.begin("ann", address)

    assert 0 < tries.begin("ann", another)


def test_networks_that_are_not_one_clients_wait_apart() -> None:
    tries = Tries()
    for _ in range(3):
        tries.begin("ann", "2001:db8:0:1::1")

    assert [0, 0] == [tries.begin("ann", each) for each in ("2001:db8:0:2::1", "::ffff:10.0.0.1")]


def test_a_try_that_was_not_looked_at_forgets_no_failures_and_adds_none() -> None:
    tries = Tries()
    with FakeClock() as clock:
        for _ in range(3):
            tries.begin("ann", "here")
        clock.advance(1)
        tries.begin("ann", "here")
        tries.not_looked_at("ann", "here")
        waits = [tries.begin("ann", "here") for _ in range(2)]

    assert [0, 2] == waits


def test_of_a_first_try_that_was_not_looked_at_nothing_is_kept() -> None:
    tries = Tries()
    tries.begin("ann", "here")
    tries.not_looked_at("ann", "here")

    assert [0, 0, 0] == [tries.begin("ann", "here") for _ in range(3)]


def test_a_success_forgets_the_failures() -> None:
    tries = Tries()
    for _ in range(3):
        tries.begin("ann", "here")
    tries.succeeded("ann", "here")

    assert 0 == tries.begin("ann", "here")


def test_a_flood_of_sign_ins_does_not_hold_all_threads(tmp_path: Path) -> None:
    users = UsersFile.of(tmp_path)
    users.put("ann", "a password")
    with ExitStack() as flood:
        for number in range(16):
            flood.enter_context(passwords._line.place(f"10.0.0.{number}"))
        with pytest.raises(Transient, match="too many people sign in at once"):
            users.accepts("ann", "a password", "10.0.1.1")
    assert users.accepts("ann", "a password", "10.0.1.1")


def test_a_flood_of_sign_ins_from_one_address_keeps_nobody_elsewhere_out(tmp_path: Path) -> None:
    users = UsersFile.of(tmp_path)
    users.put("ann", "a password")
    with ExitStack() as flood:
        for _ in range(8):
            flood.enter_context(passwords._line.place("10.0.0.1"))
        with pytest.raises(Transient, match="too many people sign in at once"):
            users.accepts("bob", "guessed", "10.0.0.1")
        assert users.accepts("ann", "a password", "10.0.0.2")
