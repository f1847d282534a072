from pathlib import Path

import pyarrow as pa
import pytest

from penstock.engine.home import Home
from penstock.engine.stateful import StatefulRunner, _cause
from penstock.errors import PositionLost
from penstock.pipeline.spec import PipelineSpec
from penstock.sinks.merging import merging_sink

ROWS = pa.table({"k": [1]})


def runner(sink: dict[str, object], folder: Path) -> StatefulRunner:
    source = {"type": "delta", "path": str(folder / "source")}
    spec = PipelineSpec.model_validate({"name": "p", "source": source, "sinks": [sink]})
    return StatefulRunner(spec, Home(folder), lambda: pytest.fail("Spark is not needed"), folder)


@pytest.mark.parametrize("name", ["console", "screen"])
def test_a_terminal_has_no_position_to_lose_whatever_it_is_called(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = runner({"type": "console", "name": name}, tmp_path)

    run._merge(merging_sink(run.spec.sinks[0], name, "p"), ROWS, 3)

    assert '{"k":1}\n' == capsys.readouterr().out


@pytest.mark.parametrize("name", ["delta", "console"])
def test_a_table_without_its_position_is_noticed_whatever_it_is_called(name: str, tmp_path: Path) -> None:
    run = runner({"type": "delta", "name": name, "path": str(tmp_path / "table"), "key": ["k"]}, tmp_path)

    with pytest.raises(PositionLost):
        run._merge(merging_sink(run.spec.sinks[0], name, "p"), ROWS, 3)


def test_of_a_traceback_the_cause_is_told_and_of_other_errors_the_first_line() -> None:
    traceback = (
        "An exception was raised. Return Message: Traceback (most recent call last):\n  File x\n    y()\nKeyError: 7\n"
    )

    assert "KeyError: 7" == _cause(traceback)
    assert "[DIVIDE_BY_ZERO] Division" == _cause("\n[DIVIDE_BY_ZERO] Division\nmore\n")
