"""Jars are verified at every use, fetched again when damaged, and missed with one clear line."""

import shutil
from pathlib import Path

import pytest

from penstock.errors import EnvironmentNotReady
from penstock.jvm import jars

from conftest import Cli
from support.plain_install import jar_repository

NO_REPOSITORY = """\
<ivysettings>
  <settings defaultResolver="nowhere"/>
  <resolvers><ibiblio name="nowhere" m2compatible="true" root="http://127.0.0.1:1/"/></resolvers>
</ivysettings>
"""


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Take the network away from Ivy."""
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(NO_REPOSITORY)
    monkeypatch.setenv("PENSTOCK_IVY_SETTINGS", str(settings))
    return str(settings)


@pytest.fixture
def copied(tmp_path: Path, jar_folder: Path) -> Path:
    """A jar folder of our own to damage."""
    jars.ensure("spark-kafka", jar_folder)
    folder = tmp_path / "jars"
    folder.mkdir()
    for jar in jars.locked("spark-kafka"):
        shutil.copy(jar_folder / jar.file_name, folder)
    return folder


@pytest.mark.usefixtures("nowhere")
def test_sound_jars_need_no_network(copied: Path) -> None:
    paths = jars.ensure("spark-kafka", copied)

    assert sorted(copied.glob("*.jar")) == sorted(paths)


def test_a_damaged_and_a_missing_jar_are_found_and_fetched_again(
    copied: Path, jar_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_IVY_SETTINGS", str(jar_repository(jar_folder, tmp_path / "ivysettings.xml")))
    first, second, *_ = jars.locked("spark-kafka")
    (copied / first.file_name).write_bytes(b"not a jar any more")
    (copied / second.file_name).unlink()
    steps: list[tuple[int, int]] = []

    paths = jars.ensure("spark-kafka", copied, lambda done, total: steps.append((done, total)))

    assert all(jars.is_sound(jar, copied) for jar in jars.locked("spark-kafka"))
    assert sorted(copied.glob("*.jar")) == sorted(paths)
    assert steps[-1] == (4, 4)


def test_without_network_and_jar_there_is_one_clear_line_and_the_rest_stays(
    copied: Path, nowhere: str, cli: Cli
) -> None:
    first, *others = jars.locked("spark-kafka")
    (copied / first.file_name).write_bytes(b"not a jar any more")

    with pytest.raises(EnvironmentNotReady, match="could not be fetched") as caught:
        jars.ensure("spark-kafka", copied)
    said = cli("up", "--port", 0, PENSTOCK_CACHE=str(copied.parent / "cache"), PENSTOCK_IVY_SETTINGS=nowhere)

    assert "penstock jars fetch --set spark-kafka" in caught.value.fix
    assert all(jars.is_sound(jar, copied) for jar in others)
    assert said.code == 7
    assert "and 46 more could not be fetched" in said.error_lines[0]
    assert 1 == len([line for line in said.err.splitlines() if "Traceback" in line or line.startswith("error")])


def test_the_doctor_fetches_what_is_missing_if_it_may(tmp_path: Path, jar_folder: Path, cli: Cli) -> None:
    cache = tmp_path / "cache"
    (cache / "jars").mkdir(parents=True)
    locked = [jar for jar_set in jars.USED_SETS for jar in jars.locked(jar_set)]
    for jar in locked[1:]:
        (cache / "jars" / jar.file_name).hardlink_to(jar_folder / jar.file_name)
    repository = str(jar_repository(jar_folder, tmp_path / "ivysettings.xml"))

    said = cli("doctor", "--fix", "--json", PENSTOCK_CACHE=str(cache), PENSTOCK_IVY_SETTINGS=repository)

    assert {"jars": True, "folder": True} == {
        each["check"]: each["ok"] for each in said.json if each["check"] in {"jars", "folder"}
    }
