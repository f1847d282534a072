import pytest

from penstock.driver.failures import cause_of, record_error_of
from penstock.errors import BatchAborted, EnvironmentNotReady, PenstockError
from penstock.kafka import failures

TRACE = "Job aborted due to stage failure\nTraceback (most recent call last):\n  File ...\n{}: it happened. Do this\n\n"


def below(kind: type[PenstockError]) -> list[type[PenstockError]]:
    """Give every kind of error that a task of ours can raise, wherever it is defined."""
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
    ],
)
def test_an_outage_is_no_records_fault(text: str, expected: type[PenstockError]) -> None:
    assert isinstance(cause_of(Exception(text)), expected)


@pytest.mark.parametrize("text", ["", "ValueError: x", "penstock.errors.NoSuchThing: x", "[DIVIDE_BY_ZERO] by zero"])
def test_anything_else_may_be_a_records_fault(text: str) -> None:
    assert None is cause_of(Exception(text))


def test_the_fault_of_a_record_is_one_line_of_bounded_length() -> None:
    record_error = record_error_of(Exception("\n\nfirst " + "x" * 1000 + "\nsecond"))

    assert ("sql", "Exception", 500) == (record_error["stage"], record_error["error"], len(record_error["message"]))
    assert record_error["message"].startswith("first x")
