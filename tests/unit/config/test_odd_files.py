"""Odd values in files and options get one clear line, never a traceback."""

from pathlib import Path

import pytest

from penstock.broker.cluster import Cluster
from penstock.config import project, settings
from penstock.config.project import LocalCluster
from penstock.errors import BadInput, PenstockError
from penstock.kafka.positions import Position
from penstock.kafka.security import Scram
from penstock.secret import Secret


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[1, 2]: 3", "a key must be a plain word"),
        ("topics: &a {x: *a}", "aliases"),
        ("topics: {a: {retention: 2026-13-01}}", "not valid YAML"),
        ("topics: {}\nhome: !!int ''", "penstock.yaml:2:7: not valid YAML: this is not a valid int"),
        ("home: !!float ''", "this is not a valid float"),
        ("home: !!bool x", "this is not a valid bool"),
        ("home: !!timestamp x", "this is not a valid timestamp"),
        ("home: !!python/object:os.system x", "not valid YAML"),
        (f"home: {'9' * 5000}", "this is not a valid int"),
        (f"home: {'[' * 5000}", "not valid YAML"),
        ("topics: {a: {retention: 7}}", "write the unit too, one of ms, s, m, h, d, w, such as 7s"),
        ("topics: {a: {retention_size: true}}", "B, KB, MB, GB, TB, KiB, MiB, GiB, TiB, such as 7MB"),
        ("topics: {a: {retention: 9223372036854775808ms}}", "more than Kafka can count"),
        ("cluster: {type: local, host: '::1'}", "cluster.host"),
        ("cluster: {type: local, port: 60000}", "cluster.port"),
    ],
)
def test_an_odd_project_file_is_refused_in_one_line(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "penstock.yaml"
    file.write_text(text)

    with pytest.raises(BadInput) as caught:
        project.load(file)

    assert complaint in str(caught.value)
    assert 1 == len(str(caught.value).splitlines())


@pytest.mark.parametrize("text", ["²", "0001-01-01", "", "yesterday"])
def test_an_odd_position_is_bad_input(text: str) -> None:
    with pytest.raises(BadInput, match="not a position in a topic"):
        Position.parse(text)


def test_a_folder_with_a_comma_is_refused_before_kafka_takes_it_for_two(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="comma"):
        Cluster(tmp_path / "a,b", tmp_path).up(LocalCluster(port=0))


def test_a_password_written_where_a_reference_belongs_is_not_repeated_in_the_error() -> None:
    with pytest.raises(ValueError, match="env:NAME or file:PATH") as caught:
        Scram.model_validate({"username": "u", "password": "canary-7f3a"})

    assert "canary-7f3a" not in str(caught.value)


def test_an_empty_secret_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")

    with pytest.raises(BadInput, match="is empty"):
        Secret.parse(f"file:{tmp_path}/empty").reveal()


def test_an_empty_variable_counts_as_unset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    plain = settings.load()
    for name in ("HOME", "PROJECT", "BOOTSTRAP_SERVERS", "USER", "SECURITY_TYPE"):
        monkeypatch.setenv(f"PENSTOCK_{name}", "")

    assert plain == settings.load()


def test_an_unknown_home_folder_in_a_secret_is_explained() -> None:
    with pytest.raises((ValueError, PenstockError), match="is not known"):
        Secret.parse("file:~nosuchuser/password")
