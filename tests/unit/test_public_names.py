"""What `import penstock` offers, and that the documentation and the examples need nothing else."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from textwrap import dedent

import pytest

import penstock
from penstock import errors

ROOT = Path(__file__).parents[2]
PUBLIC = {
    "penstock",
    "penstock.kafka",
    "penstock.kafka.security",
    "penstock.lab.simulator",
    "penstock.logging",
    "penstock.testing",
    "penstock.transports",
}
# Who writes a component works with the contracts of its family, as ours do; that page says which modules those are in.
EXTENDING = ("docs/extending.md", "examples/sqlite_sink/", "examples/sqlite_outbox/")


def error_names() -> set[str]:
    return {
        name for name, each in vars(errors).items() if isinstance(each, type) and issubclass(each, errors.PenstockError)
    }


def programs() -> Iterator[tuple[str, str]]:
    """Yield every example, and every block of Python in the documentation."""
    for path in sorted(ROOT.glob("examples/**/*.py")):
        yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
    for path in [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]:
        blocks = re.findall(r"^```python\n(.*?)^```", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
        for number, block in enumerate(blocks):
            yield f"{path.relative_to(ROOT)}, block {number + 1}", block


def imported(program: str) -> set[tuple[str, str]]:
    """Return the modules of Penstock that a program imports, each with a name that it takes from there."""
    found: set[tuple[str, str]] = set()
    try:
        tree = ast.parse(dedent(program))
    except SyntaxError:  # a part of a program, such as a branch without its function
        tree = ast.parse("\n".join(re.findall(r"^\s*((?:from|import) penstock.*)$", program, re.MULTILINE)))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {(alias.name, "") for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {(node.module or "", alias.name) for alias in node.names}
    return {(module, name) for module, name in found if module.split(".")[0] == "penstock"}


def test_every_public_name_is_there_and_the_list_is_sorted_and_has_no_doubles() -> None:
    names = penstock.__all__

    assert len(names) == len(set(names))
    assert sorted(names, key=lambda name: (not name.isupper(), not name[0].isupper(), name)) == names
    assert [] == [name for name in names if getattr(penstock, name, None) is None]
    assert {"Connection", "Consumer", "Pipeline", "Producer", "Reader", "load", "run"} <= set(names)


def test_all_errors_are_public_and_so_are_the_names_that_are_imported_when_asked_for() -> None:
    assert error_names() <= set(penstock.__all__)
    assert set(penstock.__all__) == {*error_names(), *penstock._DEFINED_IN, *penstock._MODULES}
    assert set(penstock.__all__) <= set(dir(penstock))


def test_a_name_that_is_not_public_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Runner'"):
        _ = penstock.Runner


def test_importing_penstock_is_quick_and_loads_no_client_no_model_and_no_spark() -> None:
    program = (
        "import time; began = time.process_time(); import penstock, sys\n"
        "print(time.process_time() - began, *{'confluent_kafka', 'pydantic', 'pyspark'} & set(sys.modules))\n"
        "penstock.Producer, penstock.Pipeline, penstock.load, penstock.run, penstock.logging.log_to\n"
        "print('pyspark' in sys.modules)"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    first, second = done.stdout.splitlines()

    assert float(first) < 0.1  # and nothing behind the number: none of the modules
    assert "False" == second


@pytest.mark.parametrize(
    ("where", "program"),
    [pytest.param(where, program, id=where) for where, program in programs() if not where.startswith(EXTENDING)],
)
def test_documentation_and_examples_use_public_names_alone(where: str, program: str) -> None:
    private = {
        f"{module}.{name}"
        for module, name in imported(program)
        if module not in PUBLIC or (name and name not in import_module(module).__all__)
    }

    assert set() == private, where
