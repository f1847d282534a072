import hashlib
import os
import re
from importlib import resources
from pathlib import Path
from typing import get_args

import pytest

from penstock.errors import EnvironmentNotReady
from penstock.jvm import jars
from penstock.jvm.jars import Jar, JarSet

SETS: tuple[JarSet, ...] = get_args(JarSet)
CONTENT = b"the bytes of a jar"
JAR = Jar(organisation="org.example", name="thing", revision="1.2", sha256=hashlib.sha256(CONTENT).hexdigest())


def lock_text() -> str:
    return resources.files("penstock.jvm").joinpath("jars.lock.json").read_text(encoding="utf-8")


@pytest.mark.parametrize("jar_set", SETS)
def test_every_jar_of_the_lock_has_a_sha256(jar_set: JarSet) -> None:
    locked = jars.locked(jar_set)

    assert len(locked) > 0
    assert [] == [jar for jar in locked if not re.fullmatch("[0-9a-f]{64}", jar.sha256)]


@pytest.mark.parametrize("jar_set", SETS)
def test_no_field_of_the_lock_can_leave_the_folder_or_name_a_host(jar_set: JarSet) -> None:
    fields = [text for jar in jars.locked(jar_set) for text in (jar.organisation, jar.name, jar.revision)]
    host = re.compile(r"\.(org|com|net|io|dev|local|internal|lan)$")

    assert [] == [text for text in fields if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", text)]
    assert [] == [text for text in fields if host.search(text)]


def test_the_lock_names_no_repository() -> None:
    assert [] == re.findall(r"https?:|ftp:|file:|//|@|maven\.org|artifactory|nexus", lock_text(), re.IGNORECASE)


@pytest.mark.parametrize("jar_set", SETS)
def test_a_set_holds_each_artifact_once(jar_set: JarSet) -> None:
    names = [f"{jar.organisation}:{jar.name}" for jar in jars.locked(jar_set)]

    assert sorted(set(names)) == sorted(names)


def test_the_same_jar_has_the_same_checksum_in_every_set() -> None:
    checksums: dict[str, set[str]] = {}
    for jar_set in SETS:
        for jar in jars.locked(jar_set):
            checksums.setdefault(jar.file_name, set()).add(jar.sha256)

    assert {} == {name: found for name, found in checksums.items() if len(found) > 1}


@pytest.mark.parametrize(("jar_set", "revision"), [("kafka-4.3.1", "4.3.1"), ("kafka-3.9.1", "3.9.1")])
def test_a_kafka_set_holds_that_kafka_and_its_tools(jar_set: JarSet, revision: str) -> None:
    of_kafka = {jar.name: jar.revision for jar in jars.locked(jar_set) if jar.organisation == "org.apache.kafka"}

    assert {"kafka_2.13", "kafka-clients", "kafka-tools"} <= set(of_kafka)
    assert {revision} == set(of_kafka.values())


def test_a_jar_is_kept_under_its_group_name_and_version() -> None:
    assert "org.example__thing-1.2.jar" == JAR.file_name


def test_a_whole_jar_is_sound(tmp_path: Path) -> None:
    (tmp_path / JAR.file_name).write_bytes(CONTENT)

    assert jars.is_sound(JAR, tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(CONTENT[:-1], id="truncated"),
        pytest.param(b"T" + CONTENT[1:], id="one byte changed"),
        pytest.param(CONTENT + b"\n", id="one byte more"),
    ],
)
def test_a_damaged_jar_is_found(tmp_path: Path, content: bytes) -> None:
    (tmp_path / JAR.file_name).write_bytes(content)

    assert not jars.is_sound(JAR, tmp_path)


def test_jars_that_were_fetched_are_used_again_whatever_the_umask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetch(_dependencies: str, folder: Path, *_: object, **_options: object) -> str:
        (folder / JAR.file_name).write_bytes(CONTENT)
        return ""

    monkeypatch.setattr(jars, "locked", lambda _set: (JAR,))
    monkeypatch.setattr(jars, "resolve_with_ivy", fetch)
    before = os.umask(0)
    try:
        found = [jars.ensure("delta", tmp_path / "jars") for _ in range(2)]
    finally:
        os.umask(before)

    assert [[tmp_path / "jars" / JAR.file_name]] * 2 == found
    assert found[0][0].stat().st_mode & 0o777 == 0o644


def test_a_jar_that_the_repository_refuses_once_is_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def fetch(_dependencies: str, folder: Path, *_: object, **_options: object) -> str:
        tried.append(folder)
        if len(tried) > 1:
            (folder / JAR.file_name).write_bytes(CONTENT)
        return "the repository does not have it"

    monkeypatch.setattr(jars, "locked", lambda _set: (JAR,))
    monkeypatch.setattr(jars, "resolve_with_ivy", fetch)

    assert [tmp_path / "jars" / JAR.file_name] == jars.ensure("delta", tmp_path / "jars")
    assert 2 == len(tried)


def test_a_missing_jar_is_found(tmp_path: Path) -> None:
    assert not jars.is_sound(JAR, tmp_path)
    assert not jars.is_sound(JAR, tmp_path / "no-folder")


def test_a_folder_in_a_jars_place_is_found(tmp_path: Path) -> None:
    (tmp_path / JAR.file_name).mkdir()

    assert not jars.is_sound(JAR, tmp_path)


def test_jars_in_a_folder_that_others_may_write_to_are_not_used(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)

    with pytest.raises(EnvironmentNotReady, match="is writable by everybody"):
        jars.ensure("delta", tmp_path)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which the one jar of every set is sound."""
    monkeypatch.setattr(jars, "locked", lambda _jar_set: (JAR,))
    folder = tmp_path / "cache" / "jars"
    folder.mkdir(parents=True)
    (folder / JAR.file_name).write_bytes(CONTENT)
    return folder


def test_sound_jars_of_ones_own_are_used(folder: Path) -> None:
    assert [folder / JAR.file_name] == jars.ensure("delta", folder)


def test_jars_below_a_folder_that_others_may_rename_are_not_used(folder: Path) -> None:
    folder.parent.chmod(0o777)

    with pytest.raises(EnvironmentNotReady, match="cache is writable by everybody"):
        jars.ensure("delta", folder)


def test_a_sound_jar_that_somebody_else_may_rewrite_is_not_used(folder: Path) -> None:
    (folder / JAR.file_name).chmod(0o666)

    with pytest.raises(EnvironmentNotReady, match=r"thing-1.2.jar is writable by everybody"):
        jars.ensure("delta", folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_sound_jar_of_somebody_else_is_not_used(folder: Path) -> None:
    os.chown(folder / JAR.file_name, 12345, 12345)

    with pytest.raises(EnvironmentNotReady, match="belongs to another user"):
        jars.ensure("delta", folder)


@pytest.mark.parametrize(("steps", "said"), [(98, [1, 25, 49, 74, 98]), (2, [1, 2]), (1, [1])])
def test_how_far_fetching_is_takes_five_lines_at_most(steps: int, said: list[int]) -> None:
    lines: list[str] = []
    tell = jars.progress_lines("Connect", lines.append)
    for step in range(1, steps + 1):
        tell(step, steps)

    assert [f"fetching Connect: step {step} of {steps}" for step in said] == lines
