import pickle

import pytest

from penstock import errors
from penstock.errors import (
    BadInput,
    BatchAborted,
    BrokerUnavailable,
    CheckpointLost,
    ClusterReplaced,
    Conflict,
    DeliveryFailed,
    Discontinuity,
    EnvironmentNotReady,
    FormatNotUnderstood,
    LeaderNotAvailable,
    LogTruncated,
    Mistakes,
    NotFound,
    OwnershipLost,
    PenstockError,
    PipelineHalted,
    PositionLost,
    PositionsMoved,
    QueueFull,
    RecordsRefused,
    Refused,
    RegistryUnavailable,
    RetentionPassed,
    SchemaChanged,
    SinkUnavailable,
    SparkDied,
    StateOutdated,
    Terminal,
    TopicRecreated,
    Transient,
)

EXIT_CODES: dict[type[PenstockError], int] = {
    BadInput: 2,
    Mistakes: 2,
    RecordsRefused: 2,
    NotFound: 3,
    BrokerUnavailable: 4,
    LeaderNotAvailable: 4,
    QueueFull: 4,
    OwnershipLost: 4,
    SinkUnavailable: 4,
    RegistryUnavailable: 4,
    SchemaChanged: 4,
    BatchAborted: 4,
    SparkDied: 4,
    Refused: 5,
    Conflict: 6,
    PositionsMoved: 6,
    FormatNotUnderstood: 6,
    EnvironmentNotReady: 7,
    DeliveryFailed: 8,
    Discontinuity: 9,
    CheckpointLost: 9,
    PositionLost: 9,
    ClusterReplaced: 9,
    StateOutdated: 9,
    TopicRecreated: 9,
    RetentionPassed: 9,
    LogTruncated: 9,
    PipelineHalted: 10,
}


def below(kind: type[PenstockError]) -> set[type[PenstockError]]:
    found = {each for each in kind.__subclasses__() if each.__module__.startswith("penstock.")}
    return found.union(*(below(each) for each in found))


def test_the_tree_holds_the_markers_and_the_documented_errors_only() -> None:
    assert {Transient, Terminal, *EXIT_CODES} == below(PenstockError)


@pytest.mark.parametrize("kind", EXIT_CODES)
def test_every_error_is_either_transient_or_terminal(kind: type[PenstockError]) -> None:
    assert 1 == [issubclass(kind, Transient), issubclass(kind, Terminal)].count(True)


def test_only_what_may_pass_by_waiting_is_transient() -> None:
    expected = {
        BrokerUnavailable,
        LeaderNotAvailable,
        QueueFull,
        OwnershipLost,
        SinkUnavailable,
        RegistryUnavailable,
        SchemaChanged,
        SparkDied,
        BatchAborted,
    }

    assert expected == {kind for kind in EXIT_CODES if issubclass(kind, Transient)}


@pytest.mark.parametrize(("kind", "expected"), EXIT_CODES.items())
def test_every_error_ends_the_command_with_its_code(kind: type[PenstockError], expected: int) -> None:
    assert expected == kind("what").exit_code


@pytest.mark.parametrize(("kind", "code"), EXIT_CODES.items())
def test_the_documentation_has_the_same_codes(kind: type[PenstockError], code: int) -> None:
    documentation = errors.__doc__ or ""

    (line,) = (line.split() for line in documentation.splitlines() if f"─ {kind.__name__} " in line)
    told = line[line.index(kind.__name__) + 1]

    # Where the documentation has no number, the one of the kind above counts.
    above = next(each.__dict__["exit_code"] for each in kind.__mro__[1:] if "exit_code" in each.__dict__)
    assert code == (int(told) if told.isdigit() else above)


def test_no_error_takes_a_code_with_another_meaning() -> None:
    success, found_something_wrong, defect, interrupted = 0, 1, 70, 130

    assert set() == {success, found_something_wrong, defect, interrupted} & set(EXIT_CODES.values())
    assert defect == PenstockError.exit_code


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        pytest.param(BadInput("no such thing"), "no such thing", id="what"),
        pytest.param(BadInput("no such thing", fix="Run: x"), "no such thing. Run: x", id="fix"),
        pytest.param(BadInput("no such thing", safe="Data stay"), "no such thing. Data stay", id="safe"),
        pytest.param(BadInput("a", fix="c", safe="b"), "a. b. c", id="in order"),
        pytest.param(BadInput("a. ", safe=" b.", fix="c."), "a. b. c", id="tidied"),
    ],
)
def test_an_error_is_one_line_of_what_is_safe_and_what_to_do(error: PenstockError, expected: str) -> None:
    assert expected == str(error)


def test_an_error_keeps_its_parts_apart_for_programs() -> None:
    error = Conflict("a", safe="b", fix="c")

    assert ("a", "b", "c") == (error.what, error.safe, error.fix)


@pytest.mark.parametrize("kind", EXIT_CODES)
def test_an_error_survives_the_way_to_another_process(kind: type[PenstockError]) -> None:
    error = kind("a", safe="b", fix="c")

    arrived = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes

    assert (kind, str(error), "c") == (type(arrived), str(arrived), arrived.fix)


def test_data_in_an_error_make_no_second_line_and_do_nothing_to_a_terminal() -> None:
    error = BadInput("key 'a\nerror: forged\x1b[2J\u202e\x85' in töpic", fix="Look")

    assert r"key 'a\nerror: forged\x1b[2J\u202e\x85' in töpic. Look" == str(error)
