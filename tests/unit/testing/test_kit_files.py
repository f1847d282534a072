"""Which pipelines the testing kit runs, from files, classes and modules, and which it refuses."""

import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from penstock import Pipeline
from penstock.errors import BadInput, NotFound
from penstock.sources.kafka import Kafka
from penstock.steps.python import Python
from penstock.testing import run

from support.kit import Timely, spec


def write(folder: Path, name: str, code: str) -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text(code)
    return file


YAML = """\
name: combat
source: {topics: [hits]}
decode: {type: json, schema: "id bigint, s string"}
steps:
  - {python: "%s:f", on: %s}
sinks: [{type: console}]
"""


@pytest.mark.parametrize(
    ("on", "code"),
    [
        ("rows", "def f(row):\n    return None if row['id'] == 1 else {**row, 's': str(100 // row['id'])}\n"),
        (
            "pandas",
            "def f(frame):\n    frame['s'] = [str(100 // int(n)) for n in frame.id]\n    return frame[frame.id != 1]\n",
        ),
    ],
)
def test_python_steps_run_as_they_do_in_production(tmp_path: Path, on: str, code: str) -> None:
    write(tmp_path, f"kit_steps_{on}.py", code)
    file = write(tmp_path, "combat.yaml", YAML % (f"kit_steps_{on}", on))

    outcome = run(file, [{"id": number} for number in range(4)])

    assert [{"id": 2, "s": "50"}, {"id": 3, "s": "33"}] == outcome.rows
    assert [(0, "step", "ZeroDivisionError")] == [(each.offset, each.stage, each.error) for each in outcome.dead]
    assert {"console": 1} == outcome.dropped


def test_steps_run_one_into_the_other_and_into_the_handlers(tmp_path: Path) -> None:
    code = "def f(row):\n    return {'n': row['id'] * 2}\ndef g(row):\n    return {'n': row['n'] + 1}\n"
    write(tmp_path, "kit_two_steps.py", code + "class H:\n    def handle_message(self, m):\n        return m\n")
    steps = [
        Python(python="kit_two_steps:f", returns="n bigint"),
        {"python": "kit_two_steps:g"},
        {"handlers": "kit_two_steps:H", "batchers": {"default": {"batch_size": 2}}, "batcher_column": "b"},
        {"python": "kit_two_steps:g"},
    ]
    sys.path.insert(0, str(tmp_path))

    outcome = run(spec(steps=steps), [{"id": 1}, "no json", {"id": 2}, {"id": 3}])

    assert [{"n": 4, "b": None}, {"n": 6, "b": None}, {"n": 8, "b": None}] == outcome.rows
    assert [1] == [letter.offset for letter in outcome.dead]
    assert ({"size": 1, "flush": 1}, 3) == (outcome.handlers["batches"]["default"], outcome.handlers["messages"])


def test_a_file_of_python_is_run_as_it_would_be_in_production(tmp_path: Path) -> None:
    file = write(tmp_path, "kit_own_file.py", CLASS % "'of the file'")

    assert [{"id": 1, "s": "of the file"}] == run(file, [{"id": 1}]).rows


CLASS = """\
from penstock import Pipeline

class Combat(Pipeline):
    name = "combat"
    source = {"topics": ["hits"]}
    decode = {"type": "json", "schema": "id bigint, s string"}
    sinks = [{"type": "console"}]

    def handle_message(self, message):
        message.data["s"] = %s
        return message
"""


def test_files_of_one_name_in_two_folders_are_not_mixed_up(tmp_path: Path) -> None:
    files = [write(tmp_path / each, "kit_namesake.py", CLASS % repr(each)) for each in ("one", "two")]

    actual = [run(file, [{"id": 1}]).rows[0]["s"] for file in [*files, *files]]

    assert ["one", "two", "one", "two"] == actual


def test_functions_of_one_name_in_two_folders_are_not_mixed_up(tmp_path: Path) -> None:
    for each in ("one", "two"):
        write(tmp_path / each, "kit_function.py", f"def f(row):\n    return {{'id': 1, 's': {each!r}}}\n")
    files = [write(tmp_path / each, "combat.yaml", YAML % ("kit_function", "rows")) for each in ("one", "two")]

    actual = [run(file, [{"id": 1}]).rows[0]["s"] for file in [*files, *files]]

    assert ["one", "two", "one", "two"] == actual


def test_a_file_that_has_the_name_of_a_module_of_python_does_not_replace_it(tmp_path: Path) -> None:
    import colorsys

    file = write(tmp_path, "colorsys.py", CLASS % "'x'")

    with pytest.raises(BadInput, match=r"'colorsys' beside the pipeline file is hidden by another one.*Rename yours"):
        run(file, [{"id": 1}])
    assert colorsys is sys.modules["colorsys"]


def test_a_module_that_the_test_imported_is_the_one_that_runs(tmp_path: Path) -> None:
    code = "SEEN = []\ndef f(row):\n    SEEN.append(row['id'])\n    return row\n"
    write(tmp_path, "kit_shared.py", code)
    sys.path.insert(0, str(tmp_path))
    import kit_shared  # type: ignore[import-not-found]

    run(write(tmp_path, "combat.yaml", YAML % ("kit_shared", "rows")), [{"id": 7}])

    assert [7] == kit_shared.SEEN


def test_a_class_of_a_script_can_be_run_though_it_has_no_file() -> None:
    script = CLASS % "'of a script'" + "\nfrom penstock.testing import run\nprint(run(Combat, [{'id': 1}]).rows)\n"

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)

    assert ("[{'id': 1, 's': 'of a script'}]\n", 0) == (done.stdout, done.returncode)


def test_a_class_within_a_function_is_refused_for_no_task_could_find_it() -> None:
    class Local(Timely):
        name = "local"

    with pytest.raises(BadInput, match=r"Local.* top level"):
        run(Local, [{"id": 1}])


class Unfinished(Pipeline):
    name = "Unfinished"
    source = Kafka(topics=["hits"])


def test_a_class_that_makes_no_pipeline_is_refused_with_the_keys() -> None:
    with pytest.raises(ValidationError) as caught:
        run(Unfinished, [{"id": 1}])

    assert {"name", "sinks"} == {each["loc"][0] for each in caught.value.errors()}


def test_what_a_check_would_find_is_found_before_anything_runs() -> None:
    with pytest.raises(BadInput, match="there is no module 'nowhere_at_all', neither beside the file nor installed"):
        run(spec(steps=[{"handlers": "nowhere_at_all:H"}]), [{"id": 1}])


def test_a_class_that_its_module_lacks_is_refused() -> None:
    with pytest.raises(BadInput, match="the module 'json' has no function 'Nobody'"):
        run(spec(steps=[{"handlers": "json:Nobody"}]), [{"id": 1}])


def test_a_module_that_cannot_be_imported_is_refused_with_the_reason(tmp_path: Path) -> None:
    write(tmp_path, "kit_broken.py", "1 / 0\n")

    with pytest.raises(BadInput, match="'kit_broken:f' cannot be imported: ZeroDivisionError"):
        run(write(tmp_path, "combat.yaml", YAML % ("kit_broken", "rows")), [{"id": 1}])


def test_a_file_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        run(tmp_path / "nothing.yaml", [])
