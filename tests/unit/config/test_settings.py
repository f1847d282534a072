import grp
import os
import pwd
from pathlib import Path

import pytest

from penstock.cli.session import Session
from penstock.config import settings
from penstock.errors import BadInput, NotFound

EXTERNAL = "cluster: {type: external, bootstrap_servers: 'file:1', security: {type: tls, ca_file: ca.pem}}\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two folders below the one where a project may be."""
    folder = tmp_path / "project" / "deep" / "deeper"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    return tmp_path / "project"


def write(file: Path, text: str = "") -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    ("file", "variable", "option", "expected"),
    [
        pytest.param(False, None, None, None, id="default"),
        pytest.param(True, None, None, "file:1", id="file"),
        pytest.param(True, "variable:1", None, "variable:1", id="variable over file"),
        pytest.param(True, "variable:1", "option:1", "option:1", id="option over variable"),
        pytest.param(False, None, "option:1", "option:1", id="option over default"),
    ],
)
def test_the_strongest_bootstrap_wins(
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    file: bool,
    variable: str | None,
    option: str | None,
    expected: str | None,
) -> None:
    if file:
        write(here / "penstock.yaml", EXTERNAL)
    if variable:
        monkeypatch.setenv("PENSTOCK_BOOTSTRAP_SERVERS", variable)

    external = settings.load(bootstrap=option).external

    assert expected == (external.bootstrap_servers if external else None)


@pytest.mark.usefixtures("here")
def test_a_bootstrap_that_is_no_address_is_named_by_what_says_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInput) as in_python:
        settings.load(bootstrap="nonsense")
    with pytest.raises(BadInput) as option:
        settings.load(bootstrap="nonsense", on_command_line=True)
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP_SERVERS", "nonsense")
    with pytest.raises(BadInput) as variable:
        settings.load()

    said = [str(each.value).partition(": a server is named as host:port")[0] for each in (in_python, option, variable)]
    assert ["bootstrap", "--bootstrap", "PENSTOCK_BOOTSTRAP_SERVERS"] == said


def test_the_strongest_home_wins(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    default = settings.load().home
    write(here / "penstock.yaml")
    beside_the_file = settings.load().home
    monkeypatch.setenv("PENSTOCK_HOME", str(here / "from-variable"))
    variable = settings.load().home
    option = settings.load(home=here / "from-option").home

    expected = [Path.cwd() / ".penstock", here / ".penstock", here / "from-variable", here / "from-option"]
    assert expected == [default, beside_the_file, variable, option]


def test_the_strongest_project_file_wins(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    default = settings.load().project_file
    nearest = write(here / "penstock.yaml")
    found = settings.load().project_file
    monkeypatch.setenv("PENSTOCK_PROJECT", str(write(here / "variable" / "penstock.yaml")))
    variable = settings.load()
    option = settings.load(project_file=write(here / "option" / "other.yaml"))

    expected = [None, nearest, here / "variable/penstock.yaml", here / "option/other.yaml"]
    assert expected == [default, found, variable.project_file, option.project_file]
    assert [here / "variable/.penstock", here / "option/.penstock"] == [variable.home, option.home]


def test_the_nearest_of_two_project_files_above_is_found(here: Path) -> None:
    write(here / "penstock.yaml", "topics: {farther: {}}\n")
    nearer = write(here / "deep" / "penstock.yaml", "topics: {nearer: {}}\n")

    loaded = settings.load()

    assert nearer == loaded.project_file
    assert ["nearer"] == list(loaded.project.topics)


@pytest.mark.usefixtures("here")
def test_the_strongest_user_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    default = settings.load().user
    monkeypatch.setenv("PENSTOCK_USER", "variable")
    variable = settings.load().user
    option = settings.load(user="option").user

    assert [None, "variable", "option"] == [default, variable, option]


def test_the_strongest_cache_wins(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PENSTOCK_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(here))
    default = settings.load().jars
    monkeypatch.setenv("XDG_CACHE_HOME", str(here / "xdg"))
    xdg = settings.load().jars
    monkeypatch.setenv("PENSTOCK_CACHE", str(here / "cache"))
    variable = settings.load().jars

    assert [here / ".cache/penstock/jars", here / "xdg/penstock/jars", here / "cache/jars"] == [default, xdg, variable]


@pytest.mark.usefixtures("here")
def test_a_bad_bootstrap_is_refused() -> None:
    with pytest.raises(BadInput, match="a server is named as host:port"):
        settings.load(bootstrap="nonsense")


def give_away(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a path belong to somebody else: by changing its owner where we may, else by being another user."""
    if os.geteuid() == 0:
        os.chown(path, 12345, 12345, follow_symlinks=False)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)


@pytest.mark.parametrize("whose", ["file", "folder"])
def test_a_strangers_project_file_is_passed_over_unless_it_is_named(
    here: Path, monkeypatch: pytest.MonkeyPatch, whose: str
) -> None:
    file = write(here / "penstock.yaml", EXTERNAL)
    give_away(file if whose == "file" else here, monkeypatch)

    found = settings.load()
    named = settings.load(project_file=file)

    assert (None, None, (file,)) == (found.project_file, found.external, found.passed_over)
    assert (file, ()) == (named.project_file, named.passed_over)
    assert named.external is not None


def test_a_command_goes_on_without_a_strangers_project_file_and_says_so_in_one_line(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(here / "penstock.yaml", "no: project")
    give_away(file, monkeypatch)
    current = Session()

    assert current.settings is current.settings
    (told,) = capsys.readouterr().err.splitlines()
    assert told.startswith(f"warning: {file} was ignored, because it or its folder belongs to another user")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_behind_a_strangers_project_file_ones_own_is_found(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, strangers = write(here / "penstock.yaml", EXTERNAL), write(here / "deep/penstock.yaml", "no: project")
    give_away(strangers, monkeypatch)

    found = settings.load()

    assert (own, (strangers,)) == (found.project_file, found.passed_over)


@pytest.mark.parametrize("whose", ["home", "the folder it is in", "a link to a home of ours"])
def test_a_strangers_home_folder_is_not_used_unless_it_is_named(
    here: Path, monkeypatch: pytest.MonkeyPatch, whose: str
) -> None:
    home = here / "deep/deeper/.penstock"
    if whose.startswith("a link"):
        home.symlink_to(write(here / "other/broker/cluster.json").parent.parent)
    else:
        write(home / "broker/cluster.json")
    give_away(home if whose != "the folder it is in" else home.parent, monkeypatch)

    with pytest.raises(BadInput, match="belongs to another user") as refused:
        _ = settings.load(on_command_line=True).home

    assert f"--home {home}" in refused.value.fix
    assert home.resolve() == settings.load(home=home).home


def test_a_folder_that_everybody_may_write_to_is_no_place_for_a_home(here: Path) -> None:
    folder = here / "deep/deeper"
    folder.chmod(0o777)

    with pytest.raises(BadInput, match="writable by everybody"):
        _ = settings.load().home

    assert settings.load(bootstrap="a:1").external is not None, "who needs no home may stand there"
    assert folder / "h" == settings.load(home=folder / "h").home


def test_where_nobody_moves_what_belongs_to_others_a_home_may_be(here: Path) -> None:
    (here / "deep/deeper").chmod(0o1777)

    home = settings.load().home

    assert here / "deep/deeper/.penstock" == home
    assert 0o700 == home.stat().st_mode & 0o777, "made at once, before somebody else does"


def test_a_home_that_leads_nowhere_is_reported(here: Path) -> None:
    (here / "deep/deeper/.penstock").symlink_to("nothing")

    with pytest.raises(BadInput, match="leads nowhere"):
        _ = settings.load().home


@pytest.mark.parametrize(("mode", "why"), [(0o777, "writable by everybody"), (0o770, "writable by a group")])
@pytest.mark.parametrize("whose", ["file", "folder"])
def test_a_project_file_that_others_may_change_is_not_read_unless_it_is_named(
    here: Path, monkeypatch: pytest.MonkeyPatch, whose: str, mode: int, why: str
) -> None:
    file = write(here / "penstock.yaml", EXTERNAL)
    (file if whose == "file" else here).chmod(mode)
    several = grp.struct_group(("staff", "x", 50, ["anna", "ben"]))
    monkeypatch.setattr(grp, "getgrgid", lambda _id: several)

    with pytest.raises(BadInput, match=why):
        settings.load()

    assert settings.load(project_file=file).external is not None


def test_a_group_of_ones_own_may_write_to_a_project_file(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(here / "penstock.yaml", EXTERNAL).chmod(0o660)
    alone = grp.struct_group((pwd.getpwuid(os.geteuid()).pw_name, "x", 1000, []))
    monkeypatch.setattr(grp, "getgrgid", lambda _id: alone)

    assert settings.load().external is not None


def test_a_remedy_is_written_for_whoever_gets_it_a_program_or_somebody_at_the_command_line(here: Path) -> None:
    here.chmod(0o777)
    write(here / "penstock.yaml")

    with pytest.raises(BadInput) as in_python:
        settings.connection()
    with pytest.raises(BadInput) as in_a_shell:
        settings.load(on_command_line=True)

    assert in_python.value.fix == f'If it is meant: penstock.connection(project="{here}/penstock.yaml")'
    assert in_a_shell.value.fix == f"If it is meant: --project {here}/penstock.yaml"


def test_below_a_folder_with_a_cluster_that_one_is_named_and_none_is_taken_for_granted(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = here / ".penstock/broker"
    broker.mkdir(parents=True, mode=0o700)
    (broker / "cluster.json").write_text("{}")
    below = here / "sub"
    below.mkdir()
    monkeypatch.chdir(below)

    with pytest.raises(NotFound, match=f"but there is one in {here}. Change to that folder, or name it: --home {here}"):
        settings.load(on_command_line=True).connection()
    settings.load(home=below / "other", on_command_line=True).require_no_cluster_above()


def test_a_misspelt_address_in_the_environment_is_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", "kafka-1.example.com:9092")

    with pytest.raises(BadInput) as caught:
        settings.load()

    expected = "there is no variable PENSTOCK_BOOTSTRAP. Did you mean PENSTOCK_BOOTSTRAP_SERVERS?"
    assert expected == str(caught.value)
