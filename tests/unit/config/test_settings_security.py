from pathlib import Path

import pytest

from penstock.config import settings
from penstock.errors import BadInput
from penstock.kafka.security import Mtls, Plaintext, Scram, Tls
from penstock.secret import Secret

CANARY = "canary-19c4"
EXTERNAL = "cluster: {type: external, bootstrap_servers: 'file:1', security: {type: tls, ca_file: ca.pem}}\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def set_security(monkeypatch: pytest.MonkeyPatch, **fields: str) -> None:
    for name, value in fields.items():
        monkeypatch.setenv(f"PENSTOCK_SECURITY_{name}", value)


def test_the_strongest_security_wins(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    default = settings.load(bootstrap="a:1").external
    (here / "penstock.yaml").write_text(EXTERNAL)
    file = settings.load().external
    set_security(monkeypatch, TYPE="scram", USERNAME="orders", CA_FILE="v.pem", PASSWORD=CANARY)
    variable = settings.load().external

    login = Scram(username="orders", ca_file=Path("v.pem"), password=Secret("env:PENSTOCK_SECURITY_PASSWORD"))
    expected = [Plaintext(), Tls(ca_file=here / "ca.pem"), login]
    assert expected == [each.security if each else None for each in (default, file, variable)]


def test_the_files_security_stays_when_only_the_servers_change(here: Path) -> None:
    (here / "penstock.yaml").write_text(EXTERNAL)

    external = settings.load(bootstrap="option:1").external

    assert external is not None
    assert ("option:1", Tls(ca_file=here / "ca.pem")) == (external.bootstrap_servers, external.security)


def test_a_password_variable_is_read_at_use_and_is_in_no_rendering(monkeypatch: pytest.MonkeyPatch) -> None:
    set_security(monkeypatch, TYPE="scram", USERNAME="orders", PASSWORD=CANARY)

    loaded = settings.load(bootstrap="a:1")

    assert loaded.external is not None
    assert CANARY == loaded.external.librdkafka()["sasl.password"]
    renderings = [repr(loaded), str(loaded), repr(loaded.external.model_dump()), loaded.external.model_dump_json()]
    assert [] == [text for text in renderings if CANARY in text]


def test_the_variable_of_a_keys_password_is_only_named(monkeypatch: pytest.MonkeyPatch) -> None:
    set_security(monkeypatch, TYPE="mtls", CERTIFICATE_FILE="c.pem", KEY_FILE="c.key", KEY_PASSWORD=CANARY)

    loaded = settings.load(bootstrap="a:1")

    assert loaded.external is not None
    assert isinstance(loaded.external.security, Mtls)
    assert Secret("env:PENSTOCK_SECURITY_KEY_PASSWORD") == loaded.external.security.key_password
    assert CANARY not in repr(loaded)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"TYPE": "scram"}, "PENSTOCK_SECURITY_USERNAME: it is required"),
        ({"TYPE": "scram", "USERNAME": "o", "USR": "x"}, "PENSTOCK_SECURITY_USR: it is not known"),
        ({"USERNAME": "o"}, "PENSTOCK_SECURITY_TYPE: the key 'type' is missing"),
        ({"TYPE": "tls"}, "PENSTOCK_SECURITY_PASSWORD: it is not known"),
    ],
    ids=["missing field", "unknown field", "missing type", "a type without a password"],
)
def test_a_wrong_variable_is_named_and_the_password_is_not_shown(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, str], expected: str
) -> None:
    set_security(monkeypatch, PASSWORD=CANARY, **fields)

    with pytest.raises(BadInput) as caught:
        settings.load(bootstrap="a:1")

    assert expected == str(caught.value)
    assert caught.value.__suppress_context__


@pytest.mark.parametrize("project", ["", "cluster: {type: local}\n"], ids=["no cluster named", "a local cluster"])
def test_a_security_type_without_an_external_cluster_is_refused(
    here: Path, monkeypatch: pytest.MonkeyPatch, project: str
) -> None:
    (here / "penstock.yaml").write_text(project)
    set_security(monkeypatch, TYPE="tls")

    with pytest.raises(BadInput) as caught:
        settings.load()

    expected = "PENSTOCK_SECURITY_TYPE is set, but no external cluster is named. Set PENSTOCK_BOOTSTRAP_SERVERS too"
    assert expected == str(caught.value)
