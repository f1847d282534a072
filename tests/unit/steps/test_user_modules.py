"""Equally named modules beside two pipeline files, and which modules are the user's own."""

import importlib
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import BadInput
from penstock.steps.user_code import load_function
from penstock.steps.user_modules import first_in, own_modules


@pytest.fixture(autouse=True)
def path_of_python(tmp_path: Path) -> Iterator[None]:
    """Set aside what another test has loaded, whose turn lasts until the next one, and leave the path as it was."""
    before = list(sys.path)
    with first_in(tmp_path / "nobodys"):
        pass
    yield
    sys.path[:] = before


def write(folder: Path, **modules: str) -> Path:
    for name, code in modules.items():
        file = folder / f"{name.replace('__', '/')}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(code)
    return folder


def namesakes(tmp_path: Path, make: Callable[[str], dict[str, str]]) -> tuple[Path, Path]:
    """Write the same modules into two folders, each with its own name in them."""
    return write(tmp_path / "one", **make("one")), write(tmp_path / "two", **make("two"))


def called(folder: Path, reference: str = "twin_rules:f") -> Any:
    return load_function(reference, folder)()


def test_a_module_and_what_it_imports_are_those_of_its_own_folder(tmp_path: Path) -> None:
    rules = "import twin_helper\ndef f():\n    return twin_helper.NAME\n"
    one, two = namesakes(tmp_path, lambda name: {"twin_rules": rules, "twin_helper": f"NAME = {name!r}\n"})

    assert ["one", "two", "one", "two"] == [called(each) for each in (one, two, one, two)]


def test_what_a_function_imports_when_it_runs_is_of_its_own_folder(tmp_path: Path) -> None:
    rules = "def f():\n    import twin_late\n    return twin_late.NAME\n"
    one, two = namesakes(tmp_path, lambda name: {"twin_rules": rules, "twin_late": f"NAME = {name!r}\n"})

    assert ["one", "two", "one"] == [called(each) for each in (one, two, one)]


def test_packages_without_init_are_those_of_their_own_folder_also_if_the_program_has_one(tmp_path: Path) -> None:
    one, two = namesakes(tmp_path, lambda name: {"twin_parts__rules": f"def f():\n    return {name!r}\n"})
    sys.path.insert(0, str(one))
    importlib.import_module("twin_parts.rules")

    assert ["two", "one", "two"] == [called(each, "twin_parts.rules:f") for each in (two, one, two)]


@pytest.mark.parametrize("name", ["json", "sys"])
def test_a_module_that_python_has_itself_is_not_taken_for_the_one_beside_the_file(tmp_path: Path, name: str) -> None:
    folder = write(tmp_path / "one", **{name: "def dumps():\n    return 'mine'\n"})

    with pytest.raises(BadInput, match=f"'{name}' beside the pipeline file is hidden by another one.*Rename yours"):
        called(folder, f"{name}:dumps")


def test_a_folder_by_two_names_has_its_modules_once(tmp_path: Path) -> None:
    one = write(tmp_path / "one", twin_class="class Order:\n    pass\n")
    (tmp_path / "link").symlink_to(one)

    assert load_function("twin_class:Order", one) is load_function("twin_class:Order", tmp_path / "link")


def test_packages_of_one_name_with_other_parts_are_not_mixed_up(tmp_path: Path) -> None:
    one = write(tmp_path / "one", twin_package____init__="", twin_package__a="def f():\n    return 'a of one'\n")
    two = write(tmp_path / "two", twin_package____init__="", twin_package__b="def f():\n    return 'b of two'\n")

    assert ["a of one", "b of two"] == [called(one, "twin_package.a:f"), called(two, "twin_package.b:f")]
    with pytest.raises(BadInput, match=r"No module named 'twin_package\.b'"):
        called(one, "twin_package.b:f")


def test_a_module_that_only_another_folder_has_is_not_found(tmp_path: Path) -> None:
    one = write(tmp_path / "one", twin_rules="import twin_alone\ndef f():\n    return 1\n", twin_alone="")
    two = write(tmp_path / "two", twin_rules="import twin_alone\ndef f():\n    return 2\n")

    assert 1 == called(one)
    with pytest.raises(BadInput, match=r"'twin_rules:f' cannot be imported: .*No module named 'twin_alone'"):
        called(two)


def test_a_folder_finds_what_it_has_loaded_and_loads_it_no_second_time(tmp_path: Path) -> None:
    rules = "SEEN = []\ndef f():\n    SEEN.append(1)\n    return len(SEEN)\n"
    one, two = namesakes(tmp_path, lambda _: {"twin_rules": rules})

    assert [1, 1, 2, 2] == [called(each) for each in (one, two, one, two)]


def test_a_module_of_the_program_gives_way_to_one_beside_the_pipeline_file_and_is_back_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = write(tmp_path / "program", twin_helper="NAME = 'program'\n")
    monkeypatch.syspath_prepend(program)
    mine = __import__("twin_helper")
    rules = "import twin_helper\ndef f():\n    return twin_helper.NAME\n"
    one = write(tmp_path / "one", twin_rules=rules, twin_helper="NAME = 'one'\n")
    two = write(tmp_path / "two", twin_rules=rules)

    assert ["one", "program"] == [called(one), called(two)]
    assert mine is sys.modules["twin_helper"]


def test_a_module_that_the_program_has_from_beside_the_pipeline_file_is_the_same_for_the_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = namesakes(tmp_path, lambda name: {"twin_shared": f"def f():\n    return {name!r}\n"})
    monkeypatch.syspath_prepend(one)
    mine = __import__("twin_shared")

    found = load_function("twin_shared:f", one)
    other = called(two, "twin_shared:f")

    assert (mine.f, "two") == (found, other)
    assert found is load_function("twin_shared:f", one)


def test_a_module_that_loads_a_pipeline_of_another_folder_while_it_is_imported_goes_on_with_its_own(
    tmp_path: Path,
) -> None:
    one, two = namesakes(tmp_path, lambda name: {"twin_helper": f"NAME = {name!r}\n"})
    loading = (
        "from pathlib import Path\nfrom penstock.steps.user_code import load_function\n"
        f"load_function('twin_rules:f', Path({str(two)!r}))\n"
    )
    rules = "import twin_helper\ndef f():\n    return twin_helper.NAME\n"
    write(one, twin_rules=loading + rules)
    write(two, twin_rules=rules)

    assert ["one", "two"] == [called(one), called(two)]


def test_threads_of_two_pipelines_each_get_their_own(tmp_path: Path) -> None:
    rules = "import twin_helper\ndef f():\n    return twin_helper.NAME\n"
    folders = namesakes(tmp_path, lambda name: {"twin_rules": rules, "twin_helper": f"NAME = {name!r}\n"})
    wanted = [folders[number % 2] for number in range(200)]

    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(called, wanted))

    assert [each.name for each in wanted] == found


def test_modules_of_the_user_are_told_from_those_of_python_and_of_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "brewing.py").write_text("import json, pyarrow\n")
    monkeypatch.syspath_prepend(tmp_path)
    __import__("brewing")

    found = {module.__name__ for module in own_modules()}

    sys.modules.pop("brewing")
    assert "brewing" in found
    assert not {"json", "pyarrow", "pydantic", "pytest", "penstock", "penstock.driver.code_archive", "sys"} & found
