import pytest

from penstock.driver.failures import cause_of, complaint_about_sql, in_words, record_error_of
from penstock.errors import BatchAborted, EnvironmentNotReady, PenstockError
from penstock.kafka import failures

TRACE = "Job aborted due to stage failure\nTraceback (most recent call last):\n  File ...\n{}: it happened. Do this\n\n"
LOST_TASK = "Lost task 0.3 in stage 0.0 (TID 3) (127.0.0.1 executor driver): "
CALLING = "An error occurred while calling z:org.x.PythonRDD.collectAndServe.\n: org.apache.spark.SparkException: "


def below(kind: type[PenstockError]) -> list[type[PenstockError]]:
    """Return every kind of error that a task of ours can raise, wherever it is defined."""
    assert failures is not None
    return [
        each for sub in kind.__subclasses__() if sub.__module__.startswith("penstock.") for each in (sub, *below(sub))
    ]


@pytest.mark.parametrize("kind", below(PenstockError))
def test_an_error_that_a_task_raised_for_a_reason_of_its_own_is_no_records_fault(kind: type[PenstockError]) -> None:
    cause = cause_of(Exception(TRACE.format(f"{kind.__module__}.{kind.__qualname__}")))

    assert isinstance(cause, kind)
    assert "it happened. Do this" == str(cause)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("java.io.IOException: No space left on device", EnvironmentNotReady),
        ("Job 3 cancelled because SparkContext was shut down", BatchAborted),
        ("ExecutorLostFailure (executor driver exited)", BatchAborted),
        (f"{LOST_TASK}org.apache.spark.SparkException: Python worker failed to connect back.", BatchAborted),
        ("Caused by: org.apache.spark.SparkException: Python worker failed to connect back.", BatchAborted),
        ("[SPARK_JOB_CANCELLED] Job 3 cancelled killed via Web UI SQLSTATE: XXKDA", BatchAborted),
        (f"{CALLING}[SPARK_JOB_CANCELLED] Job 3 cancelled killed via Web UI SQLSTATE: XXKDA", BatchAborted),
    ],
)
def test_an_outage_is_no_records_fault(text: str, expected: type[PenstockError]) -> None:
    assert isinstance(cause_of(Exception(text)), expected)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ValueError: x",
        "penstock.errors.NoSuchThing: x",
        "[DIVIDE_BY_ZERO] by zero",
        "[CAST_INVALID_INPUT] The value '[SPARK_JOB_CANCELLED] Job 3 cancelled' cannot be cast",
    ],
)
def test_anything_else_may_be_a_records_fault(text: str) -> None:
    assert None is cause_of(Exception(text))


def test_the_fault_of_a_record_is_one_line_of_bounded_length() -> None:
    record_error = record_error_of(Exception("\n\nfirst " + "x" * 1000 + "\nsecond"))

    assert ("sql", "Exception", 500) == (record_error["stage"], record_error["error"], len(record_error["message"]))
    assert record_error["message"].startswith("first x")


def test_an_exception_of_the_users_code_is_told_with_its_class_its_words_and_its_line() -> None:
    text = (
        "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
        '  File "/home/me/rules.py", line 7, in step\n    return ids[9]\n'
        "IndexError: list index out of range\n\n\tat org.x"
    )

    assert {
        "stage": "step",
        "error": "IndexError",
        "message": "list index out of range",
        "line": "rules.py:7: return ids[9]",
    } == record_error_of(Exception(text))
    assert "IndexError: list index out of range (rules.py:7: return ids[9])" == in_words(Exception(text))


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (
            "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `amout` cannot be resolved. SQLSTATE: 1; line 1;",
            "there is no column 'amout'. Did you mean 'amount'? There are id, amount",
        ),
        (
            "[UNRESOLVED_COLUMN.WITHOUT_SUGGESTION] A column with name `events`.`zzz` cannot be resolved. SQLSTATE: 1",
            "there is no column 'events.zzz'. There are id, amount",
        ),
        (
            "\n[UNRESOLVED_ROUTINE] Cannot resolve routine `nope` on search path [`a`]. SQLSTATE: 42883; line 1\n",
            "there is no function 'nope'",
        ),
        (
            "[UNRESOLVED_ROUTINE] Cannot resolve routine `uper` on search path [`a`]. SQLSTATE: 42883; line 1",
            "there is no function 'uper'; there is 'upper'",
        ),
        ("\n[PARSE_SYNTAX_ERROR] Syntax error at or near ')'. SQLSTATE: 42601 (line 1)", "an expression is incomplete"),
        (
            "\n[PARSE_SYNTAX_ERROR] Syntax error at or near 'b': extra input 'b'. SQLSTATE: 42601 (line 1)",
            "it is not SQL at or near 'b'",
        ),
        ("[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012", "[DIVIDE_BY_ZERO] Division by zero"),
    ],
)
def test_a_complaint_about_sql_is_about_the_users_columns_and_text(said: str, expected: str) -> None:
    assert expected == complaint_about_sql(Exception(said), ["id", "amount"])
