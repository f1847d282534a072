import datetime
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any, ClassVar, get_args

import pytest
from pydantic import ValidationError

from penstock import Batcher, BatchInfo, Message, Pipeline, PipelineSpec
from penstock.clock import clock
from penstock.decoders.json import Json
from penstock.decoders.raw import Raw
from penstock.decoders.text import Text
from penstock.errors import BadInput, NotFound, PipelineHalted
from penstock.record.manifest import added_up
from penstock.sinks.console import Console
from penstock.sinks.delta import Delta
from penstock.sources.kafka import Kafka
from penstock.steps.handlers import OnFailure
from penstock.steps.python import Python
from penstock.testing import Dead, FakeClock, Outcome, Record, crashing, run
from penstock.testing.crashing import Point
from penstock.testing.dry_run import needs_spark

NOON = datetime.datetime(2026, 5, 6, 12, tzinfo=datetime.UTC)
times: list[datetime.datetime | None] = []


@pytest.fixture(autouse=True)
def nothing_of_other_tests() -> Iterator[None]:
    path = list(sys.path)
    times.clear()
    yield
    times.clear()
    sys.path[:] = path


def spec(**more: Any) -> PipelineSpec:
    parts = {
        "name": "combat",
        "source": Kafka(topics=["hits"]),
        "decode": Json(schema="id bigint NOT NULL, s string"),
        "sinks": [Console()],
    }
    return PipelineSpec.model_validate({**parts, **more})


def test_a_pipeline_without_steps_gives_its_decoded_rows() -> None:
    outcome = run(spec(), [{"id": 1, "s": "a"}, '{"id": 2}', b'{"id": 3}', Record({"id": 4})])

    assert [1, 2, 3, 4] == [row["id"] for row in outcome.rows]
    assert (4, [], {"console": 0}, {}, {}) == (
        outcome.read,
        outcome.dead,
        outcome.dropped,
        outcome.rules,
        outcome.handlers,
    )


def test_no_messages_make_no_rows() -> None:
    outcome = run(spec(), [])

    assert Outcome(0, {"console": []}, {"console": []}, [], {"console": 0}, {}, {}) == outcome


def test_messages_may_come_from_a_generator() -> None:
    assert 1000 == len(run(spec(), ({"id": number} for number in range(1000))).rows)


def test_what_cannot_be_decoded_is_dead_with_its_bytes_its_offset_and_the_reason() -> None:
    outcome = run(spec(), [{"id": 1}, "no json", b"\xff", {"s": "no id"}, [1], 5])

    assert [1] == [row["id"] for row in outcome.rows]
    assert [(1, b"no json"), (2, b"\xff"), (3, b'{"s":"no id"}'), (4, b"[1]"), (5, b"5")] == [
        (letter.offset, letter.value) for letter in outcome.dead
    ]
    assert {("decode", 0, None)} == {(letter.stage, letter.partition, letter.sink) for letter in outcome.dead}
    assert all(letter.error and letter.message for letter in outcome.dead)


def test_a_tombstone_is_dead_or_dropped_as_the_decoder_says() -> None:
    kept = run(spec(), [None, {"id": 1}])
    dropped = run(spec(decode=Json(schema="id bigint", tombstones="drop")), [None, Record(None, key="k"), {"id": 1}])

    assert ([None], {"console": 0}) == ([letter.value for letter in kept.dead], kept.dropped)
    assert ([], {"console": 2}, 3, [1]) == (
        dropped.dead,
        dropped.dropped,
        dropped.read,
        [row["id"] for row in dropped.rows],
    )


def test_text_and_raw_values_go_through_as_they_are() -> None:
    assert [["héllo"], [""]] == [list(row.values()) for row in run(spec(decode=Text()), ["héllo", ""]).rows]
    assert [[b"\xff\x00"]] == [list(row.values()) for row in run(spec(decode=Raw()), [b"\xff\x00"]).rows]


def test_rows_stand_partition_by_partition_in_the_order_of_the_messages() -> None:
    outcome = run(spec(), [Record({"id": number}, partition=(7, 3)[number % 2]) for number in range(6)])

    assert [1, 3, 5, 0, 2, 4] == [row["id"] for row in outcome.rows]


def test_every_sink_gets_the_rows_under_its_name() -> None:
    outcome = run(spec(sinks=[Console(name="a"), Delta(path=Path("t"))]), [{"id": 1}, "no json"])

    assert {"a": [{"id": 1, "s": None}], "delta": [{"id": 1, "s": None}]} == outcome.sinks
    assert ({"a": 0, "delta": 0}, 1) == (outcome.dropped, len(outcome.dead))


def test_of_several_sinks_one_must_be_named() -> None:
    outcome = run(spec(sinks=[Console(name="a"), Console(name="b")]), [{"id": 1}])

    with pytest.raises(BadInput, match=r"there are 2 sinks: say which, as in outcome.sinks\['name'\]"):
        _ = outcome.rows


def test_nothing_is_written_by_a_sink(tmp_path: Path) -> None:
    run(spec(sinks=[Delta(path=tmp_path / "t")]), [{"id": 1}])

    assert [] == list(tmp_path.iterdir())


class Timely(Pipeline):
    name = "timely"
    source = Kafka(topics=["hits"])
    decode = Json(schema="id bigint")
    sinks = (Console(),)

    def handle_message(self, message: Message) -> Message:
        times.append(message.timestamp)
        return message


def test_a_record_has_the_time_it_is_given_or_that_of_the_clock() -> None:
    given = NOON.astimezone(datetime.timezone(datetime.timedelta(hours=5)))

    with FakeClock(NOON + datetime.timedelta(hours=1)):
        run(Timely, [Record({"id": 1}, timestamp=given), {"id": 2}])

    assert [NOON, NOON + datetime.timedelta(hours=1)] == times


@pytest.mark.parametrize("value", [{1, 2}, object(), {"a": {1}}], ids=["set", "object", "set within"])
def test_a_value_that_is_no_json_is_not_sent(value: Any) -> None:
    with pytest.raises(TypeError, match="JSON"):
        run(spec(), [value])


def test_a_record_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        Record(1).value = 2  # type: ignore[misc]


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

    with pytest.raises(BadInput, match="the module 'colorsys' has no function 'Combat'"):
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


def test_only_sql_needs_spark() -> None:
    rule = {"name": "known", "that": "id IS NOT NULL"}

    assert [False, False, True, True, True] == [
        needs_spark(each)
        for each in (
            spec(),
            spec(steps=[{"python": "a:f"}, {"handlers": "a:H"}]),
            spec(steps=[{"sql": "SELECT * FROM events"}]),
            spec(expect=[rule]),
            spec(sinks=[Console(where="id > 1")]),
        )
    ]


def test_running_leaves_no_files_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    run(Timely, [{"id": 1}])

    assert [] == list(tmp_path.iterdir())


class Flaky(Timely):
    name = "flaky"
    on_failure = OnFailure(then="retry", attempts=3, backoff=60_000, max_backoff=3_600_000)

    def handle_message(self, message: Message) -> Message:
        times.append(clock().now())
        raise OSError(f"no route for {message.offset}")


def test_pauses_pass_at_once_on_the_fake_clock_and_are_on_record() -> None:
    began = time.monotonic()

    with FakeClock(NOON) as fake:
        outcome = run(Flaky, [{"id": 1}])

    assert time.monotonic() - began < 60
    assert ([60.0, 120.0], 180.0) == (fake.slept_s, fake.monotonic())
    assert [0, 60, 180] == [(at - NOON).total_seconds() for at in times if at]
    assert 1 == len(outcome.dead)


def test_a_fake_clock_stands_still_until_it_is_told_to_go_on() -> None:
    fake = FakeClock()

    before = fake.now(), fake.now()
    fake.advance(90)

    assert before[0] == before[1]
    assert (datetime.timedelta(seconds=90), 90.0, []) == (fake.now() - before[0], fake.monotonic(), fake.slept_s)


def test_fake_clocks_nest_and_the_clock_of_the_machine_comes_back_even_after_an_error() -> None:
    machine = clock()

    with FakeClock() as outer:
        with pytest.raises(ZeroDivisionError), FakeClock() as inner:
            assert inner is clock()
            raise ZeroDivisionError
        assert outer is clock()

    assert machine is clock()
    assert datetime.timedelta(minutes=1) > datetime.datetime.now(datetime.UTC) - machine.now()


def test_the_clock_of_the_machine_sleeps_and_never_goes_back() -> None:
    machine = clock()
    before = machine.monotonic()

    machine.sleep(0.01)

    assert machine.monotonic() - before >= 0.01


class Refusing(Timely):
    name = "refusing"
    on_failure = "stop"

    def handle_message(self, message: Message) -> Message:
        return message.failed("enough") if message.partition == 1 and message.offset == 2 else message


def test_a_pipeline_that_stops_says_at_which_message() -> None:
    with pytest.raises(PipelineHalted, match="the pipeline stops at message 2: MessageFailed: enough"):
        run(Refusing, [Record({"id": number}, partition=number % 2) for number in range(8)])


class Busy(Timely):
    name = "busy"
    batchers: ClassVar = {"default": Batcher(batch_size=2)}

    def handle_batch(self, batcher: str, messages: list[Message], info: BatchInfo) -> list[Message]:  # noqa: ARG002
        return messages if info.trigger == "size" else [message.drop() for message in messages]


def test_what_handlers_did_is_added_up_over_partitions() -> None:
    outcome = run(Busy, [Record({"id": number}, partition=number % 3) for number in range(9)])

    assert ({"default": {"size": 3, "flush": 3}}, 9, 3) == (
        outcome.handlers["batches"],
        outcome.handlers["messages"],
        outcome.handlers["dropped"],
    )
    assert ({"console": 3}, 6) == (outcome.dropped, len(outcome.rows))


def test_counts_are_added_up_however_deep_they_lie() -> None:
    assert {"a": 3, "b": {"c": 1, "d": {"e": 5}}} == added_up(
        [{"a": 1, "b": {"c": 1}}, {}, {"a": 2, "b": {"d": {"e": 2}}}, {"b": {"d": {"e": 3}}}]
    )
    assert {} == added_up([])


def test_a_dead_letter_can_be_compared_as_a_whole() -> None:
    expected = Dead(0, 0, b"{", "decode", "Malformed", "", None)

    (actual,) = run(spec(), ["{"]).dead

    assert {**vars(expected), "message": actual.message} == vars(actual)


@pytest.mark.parametrize("point", get_args(Point))
def test_crashing_names_a_point_at_which_a_driver_really_dies(point: Point) -> None:
    code = f"from penstock.delivery.crash_points import crash_point\ncrash_point({point!r})\nprint('lived')\n"

    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **crashing(point)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (-9, "") == (done.returncode, done.stdout)


def test_crashing_may_name_a_sink_and_let_it_pass_first() -> None:
    assert {"PENSTOCK_CRASH_AT": "in_commit:delta", "PENSTOCK_CRASH_AFTER": "2"} == crashing(
        "in_commit", sink="delta", after=2
    )
