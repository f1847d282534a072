"""The lock in a sink's folder: one process at a time, and no stranger holds it up for good."""

import fcntl
from pathlib import Path

import pytest

from penstock.delivery import durable
from penstock.delivery.durable import locked
from penstock.errors import SinkUnavailable


@pytest.mark.parametrize("was_there", [False, True])
def test_only_its_owner_can_open_the_lock(tmp_path: Path, *, was_there: bool) -> None:
    lock = tmp_path / ".penstock.lock"
    if was_there:
        lock.touch(mode=0o644)

    with locked(lock):
        mode = lock.stat().st_mode & 0o777

    assert 0o600 == mode


def test_a_lock_that_somebody_keeps_is_an_outage_and_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durable, "_LONGEST_WAIT_S", 0.05)
    lock = tmp_path / ".penstock.lock"
    lock.touch(mode=0o644)

    with lock.open("rb") as strangers:
        fcntl.flock(strangers, fcntl.LOCK_EX)
        with pytest.raises(SinkUnavailable, match="another process has held the lock") as caught, locked(lock):
            pass
    with locked(lock):
        pass

    assert f"fuser -v {lock}" in caught.value.fix


def test_a_link_in_the_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.touch(mode=0o644)
    (tmp_path / ".penstock.lock").symlink_to(precious)

    with pytest.raises(OSError, match="symbolic links"), locked(tmp_path / ".penstock.lock"):
        pass

    assert 0o644 == precious.stat().st_mode & 0o777
