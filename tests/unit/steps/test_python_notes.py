import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import ValidationError

from penstock.errors import BadInput
from penstock.steps.python import Python, PythonTask
from penstock.steps.step import StepContext
from penstock.steps.user_code import NoteFile, load_function, noted

from support.events import batch

_numbers = itertools.count(1)
THREE = batch("a bigint, s string", [(1, "x"), (2, "y"), (3, "z")])


@pytest.fixture
def module(tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """Write a module of the user's beside the pipeline file, under a name that no other test uses; give its name."""
    path = list(sys.path)

    def write(code: str) -> str:
        name = f"notes_of_test_{next(_numbers)}"
        (tmp_path / f"{name}.py").write_text(code)
        return name

    yield write
    sys.path[:] = path


def made(reference: str, tmp_path: Path) -> PythonTask:
    return Python(python=reference).open(StepContext(THREE.schema, tmp_path, tmp_path / "notes"))


def test_the_record_at_hand_is_noted_and_the_note_goes_when_all_went_well(
    module: Callable[[str], str], tmp_path: Path
) -> None:
    note = tmp_path / "notes" / "7"
    code = "from pathlib import Path\nfrom penstock.steps.user_code import noted\nseen = []\n"
    code += f"def f(row):\n    seen.append(noted(Path({str(note)!r})))\n    return row\n"
    name = module(code)

    list(made(f"{name}:f", tmp_path)(iter([THREE]), 7))

    assert [100, 101, 102] == sys.modules[name].seen
    assert not note.exists()


def test_the_note_stays_when_a_worker_is_ended_by_a_record(module: Callable[[str], str], tmp_path: Path) -> None:
    name = module("import sys\ndef f(row):\n    sys.exit(3) if row['s'] == 'y' else None\n    return row\n")

    with pytest.raises(SystemExit):
        list(made(f"{name}:f", tmp_path)(iter([THREE]), 7))

    assert 101 == noted(tmp_path / "notes" / "7")


@pytest.mark.parametrize("on", ["pandas", "arrow"])
def test_only_a_record_alone_is_noted_where_functions_take_many(
    module: Callable[[str], str], tmp_path: Path, on: Literal["pandas", "arrow"]
) -> None:
    note = tmp_path / "notes" / "0"
    code = "from pathlib import Path\nfrom penstock.steps.user_code import noted\nseen = []\n"
    code += f"def f(many):\n    seen.append((len(many), noted(Path({str(note)!r}))))\n    raise ValueError\n"
    name = module(code)

    list(
        Python(python=f"{name}:f", on=on).open(StepContext(THREE.schema, tmp_path, tmp_path / "notes"))(
            iter([THREE]), 0
        )
    )

    assert [(3, None), (1, 100), (2, None), (1, 101), (1, 102)] == sys.modules[name].seen


@pytest.mark.parametrize("content", [None, b"", b"short", b"more than eight bytes"])
def test_a_note_that_is_missing_or_damaged_says_nothing(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "note").write_bytes(content)

    assert None is noted(tmp_path / "note")


@pytest.mark.parametrize(("offset", "expected"), [(0, 0), (2**62, 2**62), (None, None)])
def test_a_note_is_read_back(tmp_path: Path, offset: int | None, expected: int | None) -> None:
    with NoteFile(tmp_path / "note") as note_file:
        note_file.note(7)
        note_file.note(offset)
        actual = noted(tmp_path / "note")

    assert expected == actual


@pytest.mark.parametrize(
    ("code", "name"),
    [
        pytest.param("import nothing_of_the_kind\n", "f", id="an import that fails"),
        pytest.param("def g(row):\n    return row\n", "f", id="no such function"),
        pytest.param("f = 7\n", "f", id="no function"),
        pytest.param("def f(row:\n", "f", id="no Python"),
        pytest.param("1 / 0\n", "f", id="a module that raises"),
    ],
)
def test_a_function_that_cannot_be_loaded_is_the_users_to_fix_and_no_records_fault(
    module: Callable[[str], str], tmp_path: Path, code: str, name: str
) -> None:
    with pytest.raises(BadInput):
        load_function(f"{module(code)}:{name}", tmp_path)


def test_a_module_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="the step 'nowhere_at_all:f' cannot be imported"):
        load_function("nowhere_at_all:f", tmp_path)


@pytest.mark.parametrize(
    "reference", ["", "f", "m:", ":f", "m.f", "m:f()", "m:a.b", "../m:f", "m f:g", "1m:f", "m:f\n"]
)
def test_a_reference_that_is_none_is_refused(reference: str) -> None:
    with pytest.raises(ValidationError):
        Python(python=reference)


@pytest.mark.parametrize("options", [{"on": "polars"}, {"returns": "x bogus"}, {"returns": ""}, {"bogus": 1}])
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Python(python="m:f", **options)
