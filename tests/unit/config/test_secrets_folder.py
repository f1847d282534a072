import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.config.secrets_folder import SecretsFolder
from penstock.errors import BadInput
from penstock.private import write_private


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=["umask 000", "umask 022", "umask 077"])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path: Path) -> str:
    return oct(stat.S_IMODE(path.stat().st_mode))


@pytest.mark.usefixtures("umask")
def test_a_private_file_and_its_folder_are_for_their_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "secrets" / "ca.key"

    write_private(path, b"content")

    assert ["0o700", "0o600"] == [mode(path.parent), mode(path)]
    assert b"content" == path.read_bytes()


@pytest.mark.usefixtures("umask")
def test_a_password_file_and_its_folder_are_for_their_owner_only(tmp_path: Path) -> None:
    path = SecretsFolder.of(tmp_path).new_password("orders")

    assert ["0o700", "0o600"] == [mode(path.parent), mode(path)]


def test_a_file_that_others_could_read_is_replaced_by_a_private_one(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_bytes(b"old")
    path.chmod(0o644)

    write_private(path, b"new")

    assert ("0o600", b"new") == (mode(path), path.read_bytes())
    assert ["secret"] == [each.name for each in tmp_path.iterdir()]


def test_what_a_crash_left_aside_is_not_reused(tmp_path: Path) -> None:
    temporary = tmp_path / "secret.new"
    temporary.write_bytes(b"half")
    temporary.chmod(0o644)

    write_private(tmp_path / "secret", b"whole")

    assert ("0o600", b"whole") == (mode(tmp_path / "secret"), (tmp_path / "secret").read_bytes())


def test_a_link_that_waits_for_the_secret_leads_it_nowhere(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"theirs")
    folder = tmp_path / "secrets"
    folder.mkdir()
    (folder / "secret").symlink_to(elsewhere)
    (folder / "secret.new").symlink_to(elsewhere)

    write_private(folder / "secret", b"ours")

    assert b"theirs" == elsewhere.read_bytes()
    assert b"ours" == (folder / "secret").read_bytes()


def test_every_password_is_new_and_long(tmp_path: Path) -> None:
    files = SecretsFolder.of(tmp_path)

    passwords = [files.new_password("orders").read_text().removesuffix("\n") for _ in range(50)]

    assert 50 == len(set(passwords))
    assert {32} == {len(password) for password in passwords}


@pytest.mark.parametrize("user", ["orders", "Orders-App_1.x", "0", "x" * 63])
def test_a_users_password_is_kept_in_the_users_folder(tmp_path: Path, user: str) -> None:
    assert tmp_path / "secrets" / "users" / f"{user}.password" == SecretsFolder.of(tmp_path).password_file(user)


@pytest.mark.parametrize(
    "user",
    [
        pytest.param("", id="empty"),
        pytest.param("../x", id="parent"),
        pytest.param("..", id="dots"),
        pytest.param("a/b", id="slash"),
        pytest.param("/etc/passwd", id="absolute"),
        pytest.param("a\0b", id="NUL"),
        pytest.param("a\n", id="newline"),
        pytest.param("a b", id="space"),
        pytest.param(".hidden", id="hidden"),
        pytest.param("-rf", id="like an option"),
        pytest.param("~root", id="home"),
        pytest.param("é", id="not ASCII"),
        pytest.param("x" * 64, id="too long"),
    ],
)
def test_a_name_that_could_lead_elsewhere_is_refused(tmp_path: Path, user: str) -> None:
    files = SecretsFolder.of(tmp_path)

    with pytest.raises(BadInput, match="is not a user name"):
        files.new_password(user)

    assert [] == list(tmp_path.iterdir())


def test_the_files_of_a_cluster_have_their_names(tmp_path: Path) -> None:
    files = SecretsFolder.of(tmp_path)

    assert [tmp_path / "secrets" / name for name in ("ca.pem", "ca.key", "node-3.pem")] == [
        files.ca_pem,
        files.ca_key,
        files.node_pem(3),
    ]
