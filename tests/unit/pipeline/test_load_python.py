import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.errors import BadInput
from penstock.pipeline.load import load
from penstock.pipeline.spec import PipelineSpec
from penstock.sinks.delta import Delta

IMPORTS = """\
from penstock.decoders.json import Json
from penstock.pipeline.spec import PipelineSpec
from penstock.sinks.delta import Delta
from penstock.sources.kafka import Kafka

def made(**more):
    parts = dict(name="combat", source=Kafka(topics=["hits"]), decode=Json(schema="id bigint"), sinks=[Delta(path="t")])
    return PipelineSpec(**{**parts, **more})

"""


@pytest.fixture(autouse=True)
def path_of_python() -> Iterator[None]:
    before = list(sys.path)
    yield
    sys.path[:] = before


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "combat-pipeline.py"


def loaded(file: Path, code: str) -> PipelineSpec:
    file.write_text(IMPORTS + code)
    return load(file)


def complaint(file: Path, code: str) -> str:
    file.write_text(code)
    with pytest.raises(BadInput) as caught:
        load(file)
    return caught.value.what


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("pipeline = made()\n", id="by models"),
        pytest.param("anything = made()\n", id="by any name"),
        pytest.param("pipeline = other = made()\n", id="one by two names"),
        pytest.param(
            "pipeline = made(source={'topics': ['hits']}, decode={'type': 'json', 'schema': 'id bigint'},"
            " sinks=[{'type': 'delta', 'path': 't'}])\n",
            id="by dictionaries, as in YAML",
        ),
        pytest.param(
            "if __name__ == '__main__':\n    raise SystemExit\npipeline = made()\n", id="with a part for the shell"
        ),
    ],
)
def test_the_one_pipeline_that_a_file_makes_is_taken(file: Path, code: str) -> None:
    spec = loaded(file, code)

    assert ("combat", ["delta"]) == (spec.name, spec.sink_names)


def test_a_file_may_import_what_lies_beside_it(file: Path) -> None:
    (file.parent / "beside_the_pipeline.py").write_text("NAME = 'other'\n")

    assert "other" == loaded(file, "import beside_the_pipeline\npipeline = made(name=beside_the_pipeline.NAME)\n").name


def test_what_lies_beside_two_files_under_one_name_is_not_mixed_up(tmp_path: Path) -> None:
    names = []
    for each in ("one", "two", "one"):
        (tmp_path / each).mkdir(exist_ok=True)
        (tmp_path / each / "twin_of_pipelines.py").write_text(f"NAME = {each!r}\n")
        file = tmp_path / each / "combat-pipeline.py"
        names.append(loaded(file, "import twin_of_pipelines\npipeline = made(name=twin_of_pipelines.NAME)\n").name)

    assert ["one", "two", "one"] == names


def test_a_file_may_hold_dataclasses_with_postponed_annotations(file: Path) -> None:
    file.write_text(
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        + IMPORTS
        + "@dataclass\nclass Wish:\n    name: str\n\npipeline = made(name=Wish('combat').name)\n"
    )

    assert "combat" == load(file).name


def test_paths_count_from_the_folder_of_the_file_as_in_yaml(file: Path) -> None:
    (sink,) = loaded(file, "pipeline = made()\n").sinks

    assert isinstance(sink, Delta)
    assert file.parent / "t" == sink.path


@pytest.mark.parametrize(("code", "count"), [("", 0), ("pipeline = made()\nother = made(name='other')\n", 2)])
def test_a_file_that_makes_none_or_several_is_refused(file: Path, code: str, count: int) -> None:
    expected = f"{file} makes {count} pipelines, and one is needed: pipeline = PipelineSpec(...), or a class"

    assert expected == complaint(file, IMPORTS + code)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param(
            "1 / 0\n", "cannot be run: ZeroDivisionError: division by zero (combat-pipeline.py:1: 1 / 0)", id="raises"
        ),
        pytest.param("def f(:\n", "cannot be run: SyntaxError: invalid syntax", id="no Python"),
        pytest.param("import nowhere_at_all\n", "cannot be run: ModuleNotFoundError: No module named", id="no module"),
        pytest.param("import sys\nsys.exit(3)\n", "cannot be run: SystemExit: 3", id="ends itself"),
    ],
)
def test_a_file_that_cannot_be_run_is_refused_with_the_reason(file: Path, code: str, expected: str) -> None:
    assert complaint(file, code).startswith(f"{file} {expected}")


def test_what_contradicts_is_refused_with_the_key_and_as_in_yaml(file: Path) -> None:
    actual = complaint(file, IMPORTS + "pipeline = made(name='Combat', sinks=[])\n").splitlines()

    where = "(combat-pipeline.py:8: return PipelineSpec(**{**parts, **more}))"
    plain = "lower-case letters, digits and dashes, at most 63; write it as combat"
    assert [
        f"{file}: name: a pipeline's name has {plain} {where}",
        f"{file}: sinks: name at least 1 here {where}",
    ] == actual


def test_a_mistyped_key_is_told_with_the_one_that_is_meant_and_its_line(file: Path) -> None:
    actual = complaint(file, IMPORTS + "source = Kafka(topcs=['hits'])\npipeline = made()\n").splitlines()

    where = "(combat-pipeline.py:10: source = Kafka(topcs=['hits']))"
    assert f"{file}: topcs: this key is not known; did you mean 'topics'? {where}" in actual


@pytest.mark.parametrize(
    ("more", "key"),
    [
        ("decode=None", "decode"),
        ("sinks=[Delta(path='a'), Delta(path='b')]", "sinks.1.name"),
        ("sinks=[Delta(path='a', name='dead')]", "sinks.0.name"),
        ("sinks=[Delta(path='a', where='')]", "sinks.0.where"),
        ("expect=[{'name': 'a', 'that': 'id'}] * 2", "expect.1.name"),
    ],
)
def test_parts_that_do_not_fit_each_other_make_no_pipeline(file: Path, more: str, key: str) -> None:
    assert complaint(file, f"{IMPORTS}pipeline = made({more})\n").startswith(f"{file}: {key}: ")


def test_the_pipeline_is_checked_as_a_whole_too(file: Path) -> None:
    code = "pipeline = made(steps=[{'sql': 'SELECT count(*) AS n FROM events'}])\n"

    assert "steps.0.sql: 'count(*) AS n': aggregates look at more than one event" in complaint(file, IMPORTS + code)
