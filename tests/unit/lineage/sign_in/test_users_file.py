import os
from pathlib import Path

from penstock.lineage.sign_in.passwords import UsersFile


def test_the_files_of_users_are_for_their_owner_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        UsersFile.of(tmp_path / "home").put("ann", "a long password")
    finally:
        os.umask(before)

    assert {"users": 0o600, "users.lock": 0o600} == {
        each.name: each.stat().st_mode & 0o777 for each in (tmp_path / "home").iterdir()
    }
