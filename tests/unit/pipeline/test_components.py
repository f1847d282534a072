"""Components of installed packages: found by their entry points, and named when they cannot be used."""

import sys
from pathlib import Path
from typing import NoReturn

import pytest

from penstock.errors import Mistakes
from penstock.pipeline import components
from penstock.pipeline.load import load
from penstock.pipeline.spec import PipelineSpec
from penstock.sinks.sink import Sink, SinkContext, SinkModel

from support.packages import install

MODULE = """
from typing import Literal
from pydantic import Field
from penstock.secret import PathFromFile
from penstock.sinks.sink import SinkModel

class Csv(SinkModel):
    type: Literal["csv"] = Field("csv", description="A file.")
    path: PathFromFile = Field(description="Where.")

    def open(self, context):
        raise NotImplementedError

class Other(Csv):
    type: Literal["other"] = "other"

class Half(SinkModel):
    type: Literal["csv"] = "csv"
"""
ROOT = Path(__file__).parents[3]
START = "name: p\nsource: {topics: [a]}\ndecode: {type: text}\nsinks:\n"


class Handmade(SinkModel):
    """A model that no package offers."""

    type: str = "handmade"

    def open(self, context: SinkContext) -> Sink:
        raise NotImplementedError


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "packages"
    monkeypatch.syspath_prepend(folder)
    return folder


def offer(folder: Path, package: str, value: str, module: str = MODULE, name: str = "csv") -> None:
    install(folder, package, module, {"penstock.sinks": {name: value}})


def loaded(folder: Path, sinks: str) -> PipelineSpec:
    file = folder / "p.yaml"
    file.write_text(START + sinks)
    return load(file)


def complaint(folder: Path, sinks: str) -> str:
    with pytest.raises(Mistakes) as caught:
        loaded(folder, sinks)
    return str(caught.value).removeprefix(f"{folder / 'p.yaml'}:")


def test_a_sink_of_an_installed_package_stands_in_a_file_like_any_other(packages: Path, tmp_path: Path) -> None:
    offer(packages, "csv_good", "csv_good:Csv")

    spec = loaded(tmp_path, "  - {type: csv, path: out, where: text > 'a'}\n")
    again = PipelineSpec.model_validate(spec.model_dump(mode="json", by_alias=True))

    expected = {"type": "csv", "name": None, "where": "text > 'a'", "path": str(tmp_path / "out")}
    assert ["csv"] == spec.sink_names
    assert expected == spec.model_dump(mode="json")["sinks"][0]
    assert again == spec


def test_mistakes_in_a_sink_of_a_package_are_reported_with_line_and_key(packages: Path, tmp_path: Path) -> None:
    offer(packages, "csv_strict", "csv_strict:Csv")

    actual = complaint(tmp_path, "  - {type: csv, pth: out}\n  - {type: csv, path: x, name: a/b}\n")

    assert [
        "5:5: sinks.0.path: this key is required",
        "5:17: sinks.0.pth: this key is not known; did you mean 'path'?",
    ] == [each.removeprefix(f"{tmp_path / 'p.yaml'}:") for each in actual.splitlines()[:2]]
    assert "6:26: sinks.1.name: a sink's name has letters, digits, dashes and underscores" in actual


def test_a_type_that_nobody_offers_is_reported_with_the_nearest_one(packages: Path, tmp_path: Path) -> None:
    offer(packages, "csv_near", "csv_near:Csv")

    actual = complaint(tmp_path, "  - {type: cvs, path: out}\n")

    assert actual == (
        "5:5: sinks.0: there is no type 'cvs': it is one of"
        " delta, iceberg, json, postgres, kafka, console, spark, csv, lineage; did you mean 'csv'?"
    )


@pytest.mark.parametrize(
    ("value", "module", "reason"),
    [
        ("csv_bad:Csv", "import not_there", "ModuleNotFoundError: No module named 'not_there'"),
        ("csv_bad:Csv", "raise SystemError('a\\nb')", "SystemError: a\\nb"),
        ("csv_bad:Csv", "raise SystemExit(0)", "SystemExit: 0"),
        ("csv_bad:Nothing", MODULE, "AttributeError: module 'csv_bad' has no attribute 'Nothing'"),
        ("csv_bad:PathFromFile", MODULE, "csv_bad:PathFromFile is not a SinkModel"),
        ("csv_bad:Half", MODULE, "csv_bad:Half lacks the method open"),
        ("csv_bad:Other", MODULE, "the `type` of csv_bad:Other is not 'csv'"),
    ],
)
def test_a_package_that_cannot_be_used_is_named_in_one_line(
    packages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, module: str, reason: str
) -> None:
    monkeypatch.delitem(sys.modules, "csv_bad", raising=False)
    offer(packages, "csv_bad", value, module)

    actual = complaint(tmp_path, "  - {type: csv, path: out}\n")

    assert f"5:6: sinks.0.type: 'csv' of package csv-bad cannot be used: {reason}" == actual


def test_a_broken_package_is_no_matter_to_a_pipeline_that_does_not_name_it(packages: Path, tmp_path: Path) -> None:
    offer(packages, "csv_unused", "csv_unused:Csv", "raise SystemError")

    assert ["delta"] == loaded(tmp_path, "  - {type: delta, path: out}\n").sink_names


def test_a_file_with_built_in_types_looks_at_no_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def looked(**_: str) -> NoReturn:
        raise AssertionError

    monkeypatch.setattr(components, "entry_points", looked)

    assert ["delta"] == loaded(tmp_path, "  - {type: delta, path: out}\n").sink_names


def test_a_built_in_type_stays_built_in(packages: Path, tmp_path: Path) -> None:
    offer(packages, "delta_of_others", "delta_of_others:Csv", name="delta")

    (sink,) = loaded(tmp_path, "  - {type: delta, path: out}\n").sinks

    assert "penstock.sinks.delta" == type(sink).__module__


def test_two_packages_with_one_type_are_both_named(packages: Path, tmp_path: Path) -> None:
    for package in ("csv_one", "csv_two"):
        offer(packages, package, f"{package}:Csv")

    actual = complaint(tmp_path, "  - {type: csv, path: out}\n")

    expected = "'csv' is offered by package csv-one and package csv-two: uninstall all but one"
    assert f"5:6: sinks.0.type: {expected}" == actual


def test_a_pipeline_in_python_may_have_a_sink_that_no_package_offers() -> None:
    spec = PipelineSpec.model_validate(
        {"name": "p", "source": {"topics": ["a"]}, "decode": {"type": "text"}, "sinks": [Handmade(name="mine")]}
    )

    assert ["mine"] == spec.sink_names


@pytest.mark.parametrize(
    "name",
    [
        "sqlite_sink/penstock_sqlite.py",
        "sqlite_sink/pyproject.toml",
        "sqlite_outbox/penstock_outbox.py",
        "sqlite_outbox/pyproject.toml",
    ],
)
def test_the_page_about_own_components_shows_the_example_that_is_tested(name: str) -> None:
    file = ROOT / "examples" / name
    page = (ROOT / "docs" / "extending.md").read_text()

    assert f"```{'python' if file.suffix == '.py' else 'toml'}\n{file.read_text()}```\n" in page


def test_the_schema_for_editors_takes_types_that_are_not_built_in() -> None:
    sinks = PipelineSpec.model_json_schema()["properties"]["sinks"]["items"]["oneOf"]

    *built_in, other = [each.get("properties", {}).get("type") for each in sinks]

    assert [None] * 7 == built_in
    assert ["delta", "iceberg", "json", "postgres", "kafka", "console", "spark"] == other["not"]["enum"]
