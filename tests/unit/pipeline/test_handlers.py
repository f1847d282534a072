import itertools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.errors import BadInput
from penstock.pipeline.load import load, load_with_warnings
from penstock.pipeline.spec import PipelineSpec
from penstock.sinks.delta import Delta
from penstock.steps.handlers import Batcher, Handlers, OnFailure
from penstock.steps.python import Python
from penstock.testing import run

IMPORTS = "from penstock import Batcher, BatchInfo, Message, Pipeline, PipelineSpec\n"
START = """\
class Combat(Pipeline):
    name = "combat"
    source = {"topics": ["hits"]}
    decode = {"type": "json", "schema": "id bigint, s string"}
    sinks = [{"type": "delta", "path": "tables/hits"}]
"""
YAML = """\
name: combat
source: {topics: [hits]}
decode: {type: json, schema: "id bigint, s string"}
sinks: [{type: delta, path: t}]
"""
_numbers = itertools.count(1)


@pytest.fixture(autouse=True)
def path_of_python() -> Iterator[None]:
    before = list(sys.path)
    yield
    sys.path[:] = before


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a file under a name that no other test uses, for modules stay in memory."""
    return tmp_path / f"class_of_test_{next(_numbers)}.py"


def loaded(file: Path, code: str) -> PipelineSpec:
    file.write_text(IMPORTS + code)
    return load(file)


def handlers(spec: PipelineSpec) -> Handlers:
    step = spec.steps[-1]
    assert isinstance(step, Handlers)
    return step


def complaint(file: Path, code: str) -> str:
    file.write_text(IMPORTS + code)
    with pytest.raises(BadInput) as caught:
        load(file)
    return caught.value.what


def test_a_class_in_a_file_is_a_pipeline_whose_last_step_are_its_handlers(file: Path) -> None:
    spec = loaded(file, START + "    steps = [{'python': 'json:loads'}]\n")

    assert ("combat", ["delta"]) == (spec.name, spec.sink_names)
    assert [Python(python="json:loads"), Handlers(handlers=f"{file.stem}:Combat")] == spec.steps


def test_attributes_of_the_class_are_the_keys_of_a_file(file: Path) -> None:
    more = """\
    batchers = {"default": Batcher(batch_size=5, max_bytes="1MB"), "slow": {"batch_timeout": "5s"}}
    on_failure = {"then": "retry", "attempts": 2, "backoff": "1s"}
    returns = "id bigint, total int"
    batcher_column = "queue"
    speed = "scheduled"
    dead_letters = {"topic": "{topic}.failed"}
    batch = {"max_events": 7}
    retry = {"give_up_after": "1h"}
    expect = [{"name": "known", "that": "total > 0"}]
"""

    spec = loaded(file, START + more)

    step = handlers(spec)
    assert {"default": Batcher(batch_size=5, max_bytes=1_000_000), "slow": Batcher(batch_timeout=5000)} == step.batchers
    assert OnFailure(then="retry", attempts=2, backoff=1000) == step.on_failure
    assert ("id bigint, total int", "queue") == (step.returns, step.batcher_column)
    assert ("scheduled", "{topic}.failed", 7) == (spec.speed, spec.dead_letters.topic, spec.batch.max_events)
    assert (3_600_000, ["known"]) == (spec.retry.give_up_after, [rule.name for rule in spec.expect])


def test_keys_may_be_models_and_tuples(file: Path) -> None:
    code = "from penstock.sinks.console import Console\nfrom penstock.sources.kafka import Kafka\n"
    code += START + "    source = Kafka(topics=['hits'])\n    sinks = (Console(), Console(name='other'))\n"

    assert ["console", "other"] == loaded(file, code).sink_names


def test_paths_of_a_class_count_from_the_folder_of_its_file(file: Path) -> None:
    (sink,) = loaded(file, START).sinks

    assert isinstance(sink, Delta)
    assert file.parent / "tables" / "hits" == sink.path


def test_a_class_without_a_name_is_one_that_others_build_on(file: Path) -> None:
    code = START.replace("Combat", "Base").replace('    name = "combat"\n', "")

    spec = loaded(file, f"{code}class Real(Base):\n    name = 'real'\n    returns = 'n int'\n")

    assert ("real", f"{file.stem}:Real", "n int") == (spec.name, handlers(spec).handlers, handlers(spec).returns)


def test_a_class_that_was_imported_is_no_pipeline_of_this_file(file: Path) -> None:
    beside = file.with_name(f"{file.stem}_beside.py")
    beside.write_text(IMPORTS + START)

    spec = loaded(file, f"from {beside.stem} import Combat\nclass Mine(Combat):\n    name = 'mine'\n")

    assert "mine" == spec.name


@pytest.mark.parametrize("more", ["Main = Combat\n", "pipeline = Combat.spec()\n"])
def test_one_pipeline_by_two_names_is_one_pipeline(file: Path, more: str) -> None:
    assert "combat" == loaded(file, START + more).name


@pytest.mark.parametrize(
    ("code", "count"),
    [
        pytest.param("", 0, id="none"),
        pytest.param("class Base(Pipeline):\n    pass\n", 0, id="no name"),
        pytest.param(START + START.replace("Combat", "Other").replace("combat", "other"), 2, id="two classes"),
        pytest.param(
            START + "pipeline = PipelineSpec(**{**Combat.spec().model_dump(by_alias=True), 'name': 'other'})\n",
            2,
            id="and a spec",
        ),
        pytest.param("def make():\n" + "".join(f"    {line}\n" for line in START.splitlines()), 0, id="in a function"),
    ],
)
def test_a_file_with_no_class_or_several_is_refused(file: Path, code: str, count: int) -> None:
    expected = f"{file} makes {count} pipelines, and one is needed: pipeline = PipelineSpec(...), or a class"

    assert expected == complaint(file, code)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (
            "name = 'Combat'",
            ["name: a pipeline's name has lower-case letters, digits and dashes, at most 63; write it as combat"],
        ),
        ("sinks = []", ["sinks: name at least 1 here"]),
        ("decode = None", ["decode: this key is required: say how bytes become columns"]),
        ("on_failure = 'ignore'", ["on_failure.then: it must be 'continue', 'stop' or 'retry'"]),
        ("on_failure = {'then': 'retry', 'attempts': 0}", ["on_failure.attempts: it must be at least 1"]),
        ("batchers = {'default': {'batch_size': 0}}", ["batchers.default.batch_size: it must be at least 1"]),
        ("batchers = {'default': {'size': 5}}", ["batchers.default.size: this key is not known"]),
        ("batchers = ['default']", ["batchers: `key: value` lines are needed here"]),
        ("returns = 'id nothing'", ["returns: the column 'id': there is no type 'nothing'"]),
        ("batcher_column = '_queue'", ["batcher_column: it does not match the form"]),
        ("name, speed = 'Combat', 'slow'", ["name: a pipeline's name", "speed: it must be"]),
    ],
)
def test_a_mistake_in_a_class_is_reported_with_the_file_and_the_key(file: Path, more: str, expected: list[str]) -> None:
    actual = complaint(file, f"{START}    {more}\n").splitlines()

    assert len(expected) == len(actual)
    for line, start in zip(actual, expected, strict=True):
        assert line.startswith(f"{file}: {start}")


def test_a_class_of_another_module_may_be_the_step_of_a_spec(file: Path) -> None:
    beside = file.with_name(f"{file.stem}_handlers.py")
    beside.write_text(
        "class Doubling:\n    def handle_message(self, m):\n        m.data['id'] *= 2\n        return m\n"
    )
    parts = "source={'topics': ['hits']}, decode={'type': 'json', 'schema': 'id bigint'}, sinks=[{'type': 'console'}]"
    file.write_text(
        f"{IMPORTS}pipeline = PipelineSpec(name='c', {parts}, steps=[{{'handlers': '{beside.stem}:Doubling'}}])\n"
    )

    assert [{"id": 10}] == run(file, [{"id": 5}]).rows


def test_the_handlers_of_a_loaded_class_are_found_by_its_tasks(file: Path) -> None:
    code = START + "    def handle_message(self, message):\n        message.data['s'] = type(self).__module__\n"
    file.write_text(IMPORTS + code + "        return message\n")

    assert [{"id": 1, "s": file.stem}] == run(file, [{"id": 1}]).rows


def test_a_dataclass_beside_the_handlers_can_be_used_by_them(file: Path) -> None:
    code = "from __future__ import annotations\nfrom dataclasses import dataclass\n" + IMPORTS
    code += (
        "@dataclass\nclass Hit:\n    id: int\n\n"
        + START
        + "    def handle_message(self, message: Message) -> Message:\n"
    )
    file.write_text(code + "        message.data['s'] = repr(Hit(message.data['id']))\n        return message\n")

    assert [{"id": 1, "s": "Hit(id=1)"}] == run(file, [{"id": 1}]).rows


def test_a_file_whose_name_is_no_name_of_a_module_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "combat-pipeline.py"

    assert complaint(file, START).startswith(f"{file}: 'combat-pipeline' is not a name of a module")


def test_a_spec_made_of_the_class_is_the_one_of_its_file(file: Path) -> None:
    file.write_text(IMPORTS + START)
    sys.path.insert(0, str(file.parent))
    module = __import__(file.stem)

    made = module.Combat.spec()

    assert load(file).steps == made.steps


def yaml_complaint(tmp_path: Path, content: str) -> str:
    file = tmp_path / "combat.yaml"
    file.write_text(content)
    with pytest.raises(BadInput) as caught:
        load(file)
    return caught.value.what.replace(f"{file}:", "")


def test_a_yaml_file_may_name_a_class_of_handlers(tmp_path: Path) -> None:
    (tmp_path / "yaml_handlers.py").write_text("class H:\n    pass\n")
    file = tmp_path / "combat.yaml"
    step = '{handlers: "yaml_handlers:H", batchers: {default: {batch_size: 5, max_bytes: 2KB}}, on_failure: stop}'
    file.write_text(f"{YAML}steps:\n  - {step}\n")

    spec = load(file)

    expected = Handlers(
        handlers="yaml_handlers:H",
        batchers={"default": Batcher(batch_size=5, max_bytes=2000)},
        on_failure=OnFailure(then="stop"),
    )
    assert [expected] == spec.steps


def test_a_class_named_in_yaml_needs_none_of_the_handlers(tmp_path: Path) -> None:
    (tmp_path / "yaml_quiet.py").write_text("class H:\n    pass\n")
    file = tmp_path / "combat.yaml"
    file.write_text(f'{YAML}steps:\n  - {{handlers: "yaml_quiet:H", batchers: {{default: {{batch_size: 2}}}}}}\n')

    outcome = run(file, [*({"id": number} for number in range(3)), "no json"])

    assert ([0, 1, 2], [3]) == ([row["id"] for row in outcome.rows], [each.offset for each in outcome.dead])
    assert {"default": {"size": 1, "flush": 1}} == outcome.handlers["batches"]


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ('{handlers: "json"}', "6:6: steps.0.handlers: write it as module:name"),
        ('{handlers: "json:a.b"}', "6:6: steps.0.handlers: write it as module:name"),
        ('{handlers: "json:H", batcher: {}}', "6:26: steps.0.batcher: "),
        ('{handlers: "json:H", batchers: {a: {batch_size: 0}}}', "6:41: steps.0.batchers.a.batch_size: "),
        ('{handlers: "json:H", batchers: {a: {batch_size: 1000001}}}', "6:41: steps.0.batchers.a.batch_size: "),
        ('{handlers: "json:H", batchers: {a: {max_bytes: 0}}}', "6:41: steps.0.batchers.a.max_bytes: "),
        ('{handlers: "json:H", batchers: {a: {batch_timeout: soon}}}', "6:41: steps.0.batchers.a.batch_timeout: "),
        ('{handlers: "json:H", on_failure: ignore}', "6:26: steps.0.on_failure"),
        ('{handlers: "json:H", on_failure: {then: retry, growth: 0.5}}', "6:52: steps.0.on_failure.growth: "),
        ('{handlers: "json:H", on_failure: {then: retry, attempts: 101}}', "6:52: steps.0.on_failure.attempts: "),
        ('{handlers: "json:H", returns: "id nothing"}', "6:26: steps.0.returns: "),
        ('{handlers: "json:H", batcher_column: "a b"}', "6:26: steps.0.batcher_column: "),
        (
            '{handlers: "json:H", batcher_column: S}',
            "6:26: steps.0.batcher_column: there is a column of this name already",
        ),
        (
            '{handlers: "json:H", returns: "q int", batcher_column: q}',
            "6:44: steps.0.batcher_column: there is a column of this name already",
        ),
        ('{handlers: "nowhere_at_all:H"}', "6:6: steps.0.handlers: there is no module 'nowhere_at_all'"),
        ('{handler: "json:H"}', "6:5: steps.0: a step has one of the keys sql, python, handlers, cdc, stateful"),
    ],
)
def test_a_mistake_in_a_step_of_handlers_is_reported_with_its_line_and_key(
    tmp_path: Path, step: str, expected: str
) -> None:
    assert yaml_complaint(tmp_path, f"{YAML}steps:\n  - {step}\n").startswith(expected)


def test_a_pipeline_has_one_class_of_handlers(tmp_path: Path) -> None:
    content = YAML + 'steps:\n  - {handlers: "json:A"}\n  - {python: "json:f"}\n  - {handlers: "json:B"}\n'

    assert "8:5: steps.2: a pipeline has one class of handlers" == yaml_complaint(tmp_path, content)


def test_a_class_of_handlers_whose_steps_name_another_is_refused(file: Path) -> None:
    actual = complaint(file, START + "    steps = [{'handlers': 'json:A'}]\n")

    assert f"{file}: steps.1: a pipeline has one class of handlers" == actual


def test_a_table_that_changes_has_no_handlers(tmp_path: Path) -> None:
    content = "name: combat\nsource: {type: delta, path: t}\nsinks: [{type: console}]\n"
    content += 'steps:\n  - {handlers: "json:A"}\n'

    expected = "5:5: steps.0: a `delta` source has no row-local Python: use `sql` or `stateful`"
    assert expected in yaml_complaint(tmp_path, content)


@pytest.mark.parametrize(
    ("step", "column", "is_known"),
    [
        ('{handlers: "json:H"}', "s", True),
        ('{handlers: "json:H", returns: "n int"}', "n", True),
        ('{handlers: "json:H", returns: "n int"}', "s", False),
        ('{handlers: "json:H", batcher_column: q}', "q", True),
        ('{handlers: "json:H", returns: "n int", batcher_column: q}', "q", True),
        ('{handlers: "json:H"}', "q", False),
    ],
)
def test_a_check_knows_the_columns_that_come_out_of_handlers(
    tmp_path: Path,
    step: str,
    column: str,
    is_known: bool,  # noqa: FBT001
) -> None:
    file = tmp_path / "combat.yaml"
    file.write_text(f"{YAML}steps:\n  - {step}\nexpect: [{{name: a, that: {column} IS NOT NULL}}]\n")

    _, warnings = load_with_warnings(file)

    assert is_known == (not any(f"there is no column '{column}'" in each for each in warnings))


def test_nothing_of_the_class_is_run_by_a_check_of_a_yaml_file(tmp_path: Path) -> None:
    (tmp_path / "yaml_explosive.py").write_text("raise SystemExit\n")
    file = tmp_path / "combat.yaml"
    file.write_text(f'{YAML}steps:\n  - {{handlers: "yaml_explosive:H"}}\n')

    assert "combat" == load(file).name


@pytest.mark.parametrize(
    ("batchers", "expected"),
    [("{}", 3000), ("{a: {}}", 1000), ("{a: {batch_timeout: 5s}}", 5000), ("{a: {}, b: {batch_timeout: 0s}}", 0)],
)
def test_the_shortest_timeout_of_the_batchers_takes_the_place_of_the_wait_for_a_batch(
    tmp_path: Path, batchers: str, expected: int
) -> None:
    file = tmp_path / "combat.yaml"
    step = f'{{handlers: "json:H", batchers: {batchers}}}'
    file.write_text(f"{YAML}batch: {{max_wait: 3s}}\nsteps:\n  - {step}\n")

    assert expected == load(file).max_wait_ms


@pytest.mark.parametrize("name", ["BatchInfo", "Batcher", "Message", "Pipeline", "PipelineSpec"])
def test_what_a_pipeline_file_needs_can_be_imported_from_penstock(name: str) -> None:
    found: Any = getattr(penstock, name)

    assert (name, True) == (found.__name__, found.__module__.startswith("penstock."))


def test_a_name_that_penstock_lacks_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'penstock' has no attribute 'Pipelines'"):
        _ = penstock.Pipelines
    assert not hasattr(penstock, "anything")


def test_importing_penstock_alone_loads_nothing_heavy() -> None:
    code = "import sys, penstock\nprint(sorted({'pydantic', 'pyarrow', 'pyspark'} & set(sys.modules)))\n"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "[]\n" == done.stdout


def test_a_mistyped_attribute_of_the_class_is_told_with_the_key_that_is_meant(file: Path) -> None:
    expected = f"{file}: the class 'Combat' has no `source`; did you mean that by `sorce`?"

    assert expected == complaint(file, START.replace("source", "sorce"))
