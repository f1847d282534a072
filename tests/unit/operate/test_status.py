"""What is on record of a pipeline: from the first moment, also of a driver that never got to its first batch."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.config.settings import Settings
from penstock.config.settings import load as load_settings
from penstock.delivery.holding import held
from penstock.driver.paths import Progress
from penstock.errors import BrokerUnavailable, Conflict
from penstock.operate import driver, history
from penstock.operate.known_pipelines import paths_of
from penstock.operate.status import Status, load, saved
from penstock.pipeline.load import load as load_pipeline

DOCUMENT = {
    "name": "orders",
    "source": {"topics": ["orders"]},
    "decode": {"type": "raw"},
    "sinks": [{"type": "console"}],
}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Return settings that lead to a broker that is not there."""
    return load_settings(home=tmp_path / "home", bootstrap="127.0.0.1:1")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "orders.yaml"
    path.write_text(yaml.safe_dump(DOCUMENT))
    return path


def folder_of(settings: Settings) -> Path:
    return paths_of(settings, "orders").folder


def run(settings: Settings, file: Path) -> Status:
    return driver.run(load_pipeline(file), settings, file, show=lambda _status: None)


def test_a_driver_that_fails_while_it_opens_leaves_its_state_error_and_exit_code(
    settings: Settings, file: Path
) -> None:
    with pytest.raises(BrokerUnavailable) as caught:
        run(settings, file)

    found = load(folder_of(settings))
    assert found is not None
    assert ("failed", str(caught.value), 4, str(file)) == (found.state, found.reason, found.exit_code, found.file)
    assert found.lag is None  # nobody has asked Kafka: a lag of 0 would say that nothing is left to read
    assert [("failed", str(caught.value))] == [
        (each.state, each.reason) for each in history.runs(settings.home, "orders", 5)
    ]


def test_a_driver_is_on_record_as_starting_before_anything_is_opened(
    settings: Settings, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, str]] = []

    def make_runner(*_: Any, **__: Any) -> Any:
        found = load(folder_of(settings))
        seen.append((found.state, found.reason) if found else ("none", ""))
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(driver, "make_runner", make_runner)
    for _ in range(2):
        with pytest.raises(OSError, match="No space left"):
            run(settings, file)

    found = load(folder_of(settings))
    assert found is not None
    reason = "[Errno 28] No space left on device"
    assert [("starting", ""), ("starting", f"the last driver failed: {reason}")] == seen
    assert ("failed", 7, reason) == (found.state, found.exit_code, found.reason)


def test_a_driver_told_to_end_while_it_opens_is_stopped(
    settings: Settings, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make_runner(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(driver, "make_runner", make_runner)
    run(settings, file)

    found = load(folder_of(settings))
    assert found is not None
    assert ("stopped", 0) == (found.state, found.exit_code)
    assert ["stopped"] == [each.state for each in history.runs(settings.home, "orders", 5)]


def test_a_second_driver_leaves_the_record_of_the_first_alone(settings: Settings, file: Path) -> None:
    folder = folder_of(settings)
    with held(folder / "driver.lock"):
        first = Status(pipeline="orders", state="running", pid=1, file="first.yaml", events=5)
        first.save(folder)
        with pytest.raises(Conflict, match="is running already"):
            run(settings, file)

        assert first == saved(folder)
    assert [] == history.runs(settings.home, "orders", 5)
    assert not (folder / "pipeline.json").exists()


@pytest.mark.parametrize(
    ("left", "locks", "told"),
    [
        (("starting", None), [], "crashed"),
        (("running", None), [], "crashed"),
        (("running", None), ["driver"], "running"),
        (("running", None), ["supervisor"], "waiting"),
        (("starting", None), ["supervisor"], "starting"),
        (("failed", 4), [], "failed"),
        (("failed", 4), ["supervisor"], "waiting"),
        (("failed", 2), ["supervisor"], "failed"),
        (("finished", 0), ["supervisor"], "finished"),
        (("failed", 4), ["supervisor", "driver"], "failed"),
    ],
)
def test_a_state_that_was_left_is_reported_as_what_it_is_now(
    tmp_path: Path, left: tuple[Any, int | None], locks: list[str], told: str
) -> None:
    state, code = left
    Status(pipeline="orders", state=state, pid=1, file="orders.yaml", reason="so it said", exit_code=code).save(
        tmp_path
    )
    with ExitStack() as stack:
        for name in locks:
            stack.enter_context(held(tmp_path / f"{name}.lock"))
        found = load(tmp_path)

    assert found is not None
    assert told == found.state
    assert found.reason


def test_a_stream_with_nothing_to_read_runs_and_an_outage_that_is_over_is_not_waited_for() -> None:
    status = Status(pipeline="orders", state="starting", pid=1, file="orders.yaml")
    states = []
    for progress in (
        Progress(None, 0, repeated=3),
        Progress(None, 5),
        Progress(None, 0, is_idle=True),
        Progress(None, -1, waiting_for="a database"),
        Progress(None, 0, is_idle=True),
    ):
        driver.account(status, progress)
        states.append((status.state, status.reason, status.lag))

    assert [
        ("starting", "", 0),
        ("starting", "", 5),
        ("running", "", 0),
        ("waiting", "a database", 0),
        ("running", "", 0),
    ] == states
    assert 3 == status.repeated
