import copy
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter

from penstock.errors import BadInput, NotFound
from penstock.secret import Secret, is_url_with_login

CANARY = "canary-83b1"


class Holder(BaseModel):
    password: Secret


def test_a_variable_is_read_at_the_moment_of_use(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = Secret.parse("env:UNIT_SECRET")
    monkeypatch.setenv("UNIT_SECRET", "first")
    first = secret.reveal()
    monkeypatch.setenv("UNIT_SECRET", "second")

    assert ("first", "second") == (first, secret.reveal())


@pytest.mark.parametrize("value", [None, ""], ids=["unset", "empty"])
def test_a_variable_without_a_value_is_not_found_by_name(monkeypatch: pytest.MonkeyPatch, value: str | None) -> None:
    monkeypatch.delenv("UNIT_SECRET", raising=False)
    if value is not None:
        monkeypatch.setenv("UNIT_SECRET", value)

    with pytest.raises(NotFound, match="the environment variable UNIT_SECRET"):
        Secret.parse("env:UNIT_SECRET").reveal()


@pytest.mark.parametrize("end", ["", "\n", "\r\n"], ids=["bare", "newline", "CRLF"])
def test_a_file_gives_its_text_without_the_line_end(tmp_path: Path, end: str) -> None:
    file = tmp_path / "secret"
    file.write_bytes(f" {CANARY} é{end}".encode())

    assert f" {CANARY} é" == Secret.parse(f"file:{file}").reveal()


def test_a_relative_file_counts_from_the_base(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(CANARY)

    revealed = Secret.parse("file:secret", tmp_path).reveal()

    assert CANARY == revealed


def test_a_tilde_is_the_users_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "secret").write_text(CANARY)

    revealed = Secret.parse("file:~/secret", Path("/elsewhere")).reveal()

    assert CANARY == revealed


def test_a_missing_file_is_not_found_by_name(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=f"the secret file {tmp_path}/none cannot be read: No such file"):
        Secret.parse(f"file:{tmp_path}/none").reveal()


def test_a_folder_is_no_secret_file(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="cannot be read: Is a directory"):
        Secret.parse(f"file:{tmp_path}").reveal()


def test_a_file_that_is_not_text_is_refused_without_its_bytes(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_bytes(CANARY.encode() + b"\xff")

    with pytest.raises(BadInput) as caught:
        Secret.parse(f"file:{file}").reveal()

    assert f"the secret file {file} is not text" == str(caught.value)


@pytest.mark.parametrize("reference", [CANARY, "", "env:", "file:", "vault:x", f"ENV:{CANARY}", 12345, None])
def test_a_secret_that_is_written_out_is_refused_without_repeating_it(reference: Any) -> None:
    expected = "a secret is not written here: name it as env:NAME or file:PATH"

    with pytest.raises(ValueError, match="not written here") as caught:
        Secret.parse(reference)

    assert expected == str(caught.value)


@pytest.mark.parametrize("source", ["held", "env", "file"])
def test_the_value_is_in_no_rendering(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNIT_SECRET", CANARY)
    (tmp_path / "secret").write_text(CANARY)
    secret = {
        "held": Secret.of(CANARY),
        "env": Secret.parse("env:UNIT_SECRET"),
        "file": Secret.parse("file:secret", tmp_path),
    }[source]
    holder = Holder(password=secret)
    revealed = secret.reveal()

    renderings = [repr(secret), str(secret), f"{secret}", repr(holder), repr(holder.model_dump())]
    renderings += [holder.model_dump_json(), repr(holder.model_dump(mode="json")), repr(vars(holder))]

    assert CANARY == revealed
    assert [] == [text for text in renderings if CANARY in text]


def test_a_rendering_says_where_the_secret_is() -> None:
    assert ["Secret(env:UNIT_SECRET)", "Secret(held by the program)"] == [
        str(Secret.parse("env:UNIT_SECRET")),
        str(Secret.of(CANARY)),
    ]


def test_secrets_are_equal_when_source_and_value_are() -> None:
    assert Secret.of("a") == Secret.of("a")
    assert Secret.of("a") != Secret.of("b")
    assert Secret.parse("env:A") != Secret.parse("env:B")
    assert {Secret.parse("env:A")} == {Secret.parse("env:A"), Secret.parse("env:A")}


def test_the_json_schema_allows_references_only() -> None:
    expected = {"type": "string", "pattern": "^(env|file):.+"}

    assert expected == TypeAdapter(Secret).json_schema()


def test_a_secret_that_the_program_holds_is_pickled_by_name_and_read_by_its_children(tmp_path: Path) -> None:
    packed = pickle.dumps(Secret.of(CANARY))
    (tmp_path / "packed").write_bytes(packed)
    read = "import pickle, sys; print(pickle.load(open(sys.argv[1], 'rb')).reveal())"

    told = subprocess.run([sys.executable, "-c", read, tmp_path / "packed"], capture_output=True, text=True, check=True)

    assert CANARY.encode() not in packed
    assert CANARY == told.stdout.strip() == pickle.loads(packed).reveal()  # noqa: S301 - made a line above


def test_a_copy_of_a_secret_is_the_secret() -> None:
    held, named = Secret.of(CANARY), Secret.parse("env:NAME")

    assert (held, named) == (copy.deepcopy(held), copy.deepcopy(named))
    assert named == pickle.loads(pickle.dumps(named))  # noqa: S301 - made in this line


@pytest.mark.parametrize(
    "value",
    [
        "amqp://me:canary@queue/games",
        "jdbc:postgresql://me:can/ary@db/shop",
        "jdbc:postgresql://db/shop?user=me&password=canary",
        "jdbc:postgresql://db/shop?user=me&sslpassword=canary",
        "jdbc:sqlserver://db;user=me; trustStorePassword=canary",
        "https://hook.example/send?access_token=canary",
        "https://me.blob.example/box?sv=1&sig=canary",
        "Endpoint=sb://bus.example/;SharedAccessKeyName=me;SharedAccessKey=canary",
        "client_secret=canary",
        "Accept: text/plain, Authorization: Bearer canary",
    ],
)
def test_a_password_in_an_address_or_among_options_is_seen(value: str) -> None:
    assert is_url_with_login(value)


@pytest.mark.parametrize(
    "value",
    [
        "https://h.example:8443/a@b?page=2&sort=token",
        "jdbc:postgresql://db/shop?user=me&sslmode=verify-full",
        "${directory:/run/secrets:db@password}",
        "select id, token from sessions where state = 'open'",
        "public.tokens,public.passwords",
        "http.design=signal",
    ],
)
def test_what_only_looks_like_a_password_is_none(value: str) -> None:
    assert not is_url_with_login(value)
