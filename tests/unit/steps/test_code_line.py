"""Which line of the user's code an error came from."""

import json
import sys
from pathlib import Path

import pytest

from penstock.steps.code_line import code_line, code_line_in
from penstock.steps.user_code import load_function


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a pipeline file, with modules that no other test has."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    (tmp_path / "shop_of_lines").mkdir()
    (tmp_path / "shop_of_lines/__init__.py").write_text("")
    (tmp_path / "shop_of_lines/prices.py").write_text(
        "import json\n\ndef total(row):\n    return json.loads(row['text'])\n\ndef deep(row):\n    return total(row)\n"
    )
    return tmp_path


def raised(reference: str, folder: Path) -> Exception:
    with pytest.raises(ValueError, match="Expecting") as error:
        load_function(reference, folder)({"text": "no json"})
    return error.value


def test_the_last_line_of_the_users_own_is_named_however_deep_a_library_raised(folder: Path) -> None:
    expected = "shop_of_lines/prices.py:4: return json.loads(row['text'])"

    assert expected == code_line(raised("shop_of_lines.prices:deep", folder))


def test_an_error_that_no_line_of_the_users_led_to_has_none() -> None:
    with pytest.raises(ValueError, match="Expecting") as error:
        json.JSONDecoder().decode("")
    trace = error.value.__traceback__
    assert trace is not None

    assert None is code_line(error.value.with_traceback(trace.tb_next))
    assert None is code_line(ValueError("never raised"))


def test_the_line_is_found_in_the_text_that_a_worker_of_spark_sends() -> None:
    text = (
        "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
        '  File "/x/lib/python3.12/site-packages/pyspark/python/lib/pyspark.zip/pyspark/worker.py", line 9, in main\n'
        "    process()\n"
        '  File "/home/me/shop/rules.py", line 7, in step\n    return 100 / row["count"]\n'
        "           ~~~~^~~~~~~~~~~~~~\n"
        '  File "/x/lib/python3.12/site-packages/pandas/core.py", line 3, in div\n    raise\n'
        "ZeroDivisionError: division by zero\n"
    )

    assert 'rules.py:7: return 100 / row["count"]' == code_line_in(text)
    assert None is code_line_in("[DIVIDE_BY_ZERO] Division by zero")
