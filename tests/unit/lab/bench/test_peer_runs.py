"""The environment of the bench's peers is a program that we run: it must be nobody else's."""

from pathlib import Path

import pytest

from penstock.errors import EnvironmentNotReady
from penstock.lab.bench.peer_runs import PeerEnvironment, Peers


@pytest.fixture
def environments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the environments are; one that is missing is made in no time."""

    def make(environment: PeerEnvironment) -> None:
        environment.python.parent.mkdir(parents=True)
        environment.python.touch()

    monkeypatch.setattr(PeerEnvironment, "_make", make)
    Peers(tmp_path, lambda _line: None)
    return tmp_path / "peers"


def test_an_environment_that_nobody_else_can_change_is_kept(environments: Path) -> None:
    told: list[str] = []

    Peers(environments.parent, told.append)

    assert [] == told


@pytest.mark.parametrize("place", [".", "*", "*/bin"])
def test_an_environment_that_others_may_write_to_is_not_run(environments: Path, place: str) -> None:
    (folder,) = environments.glob(place) if place != "." else [environments]
    folder.chmod(0o777)

    with pytest.raises(EnvironmentNotReady, match="is writable by everybody"):
        Peers(environments.parent, lambda _line: None)
