from pathlib import Path

import pytest

from penstock.config import settings
from penstock.errors import NotFound
from penstock.operate import belonging
from penstock.operate.known_pipelines import file_of, file_of_name, paths_of


def test_a_pipeline_that_has_run_here_is_found_by_its_name(tmp_path: Path) -> None:
    here = settings.load(home=tmp_path / "home")
    paths_of(here, "orders").folder.mkdir(parents=True)
    belonging.write_file(paths_of(here, "orders").folder, tmp_path / "orders.yaml")

    assert tmp_path / "orders.yaml" == file_of_name(here, "orders") == file_of(here, "orders")


@pytest.mark.parametrize("forged", ["{folder}/evil.py", "evil.py", "../../elsewhere", "..", "", "orders\n"])
def test_what_somebody_else_wrote_for_a_name_never_leads_to_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forged: str
) -> None:
    """A pipeline file may be a program, and a dead letter says the name of its pipeline."""
    here = settings.load(home=tmp_path / "home")
    (tmp_path / "evil.py").write_text("raise SystemExit('ran')")
    monkeypatch.chdir(tmp_path)
    elsewhere = paths_of(here, "../../elsewhere").folder
    elsewhere.mkdir(parents=True)
    belonging.write_file(elsewhere, tmp_path / "evil.py")

    with pytest.raises(NotFound):
        file_of_name(here, forged.format(folder=tmp_path))
