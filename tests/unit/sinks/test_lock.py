"""The lock in a sink's folder: one process at a time, and no stranger holds it up for good."""

import fcntl
import os
from pathlib import Path

import pytest

from penstock.delivery import durable
from penstock.delivery.durable import locked
from penstock.errors import Conflict, SinkUnavailable


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


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_lock_that_a_stranger_has_made_is_refused_at_once(tmp_path: Path) -> None:
    lock = tmp_path / ".penstock.lock"
    lock.touch(mode=0o666)
    os.chown(lock, 12345, 12345)

    with pytest.raises(Conflict, match="belongs to another user") as caught, locked(lock):
        pass

    assert "Nothing was written" == caught.value.safe


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_the_lock_of_the_folders_owner_is_taken(tmp_path: Path) -> None:
    lock = tmp_path / ".penstock.lock"
    lock.touch(mode=0o600)
    os.chown(lock, 12345, 12345)
    os.chown(tmp_path, 12345, 12345)

    with locked(lock):
        pass


def test_a_lock_that_may_not_be_opened_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_arguments: object) -> int:
        raise PermissionError

    lock = tmp_path / ".penstock.lock"
    lock.touch()
    monkeypatch.setattr(os, "open", refused)

    with pytest.raises(Conflict, match="belongs to another user"), locked(lock):
        pass
