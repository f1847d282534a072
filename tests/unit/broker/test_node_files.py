from pathlib import Path

import pytest

from penstock.broker.node import Node


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(1, tmp_path)


def test_configuring_writes_what_the_node_starts_with(node: Node) -> None:
    node.configure("node.id=1\n")

    assert "node.id=1\n" == node.properties.read_text()
    assert f"appender.file.fileName = {node.log}\n" in (node.folder / "log4j2.properties").read_text()
    assert node.data.is_dir()


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        pytest.param(
            "[12:00] INFO started\n", "it gave no reason; its last line: [12:00] INFO started", id="no complaint"
        ),
        pytest.param(
            "[12:00] ERROR Exiting (kafka)\njava.lang.RuntimeException: no\n\tat x\n"
            "Caused by: java.io.IOException: disk full\n\tat y\n[12:00] INFO shut down\n",
            "Caused by: java.io.IOException: disk full",
            id="a cause under a trace",
        ),
        pytest.param("[12:00] ERROR Disk error (kafka)\n", "[12:00] ERROR Disk error (kafka)", id="no trace"),
    ],
)
def test_the_last_words_are_the_cause(node: Node, log: str, expected: str) -> None:
    node.configure("")
    node.log.write_text(log)

    assert expected == node.last_words()


def test_a_node_that_never_ran_gave_no_reason(node: Node) -> None:
    assert "it gave no reason" == node.last_words()
