from pathlib import Path

import pytest

from penstock.config import document
from penstock.config.project import Project
from penstock.errors import BadInput, NotFound


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "penstock.yaml"


def complaint(file: Path, content: str | bytes) -> str:
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(BadInput) as caught:
        document.load(file, Project)
    return caught.value.what


@pytest.mark.parametrize("content", ["", "# nothing but a comment\n", "---\n", "{}\n"])
def test_an_empty_file_gives_the_defaults(file: Path, content: str) -> None:
    file.write_text(content)

    assert Project() == document.load(file, Project)


@pytest.mark.parametrize("word", ["on", "off", "yes", "no", "Yes", "truest", "falsely"])
def test_only_true_and_false_are_no_words(file: Path, word: str) -> None:
    file.write_text(f"topics:\n  {word}: {{config: {{a: {word}, b: true}}}}\n")

    ((name, topic),) = document.load(file, Project).topics.items()

    assert (word, {"a": word, "b": True}) == (name, topic.config)


def test_an_unknown_key_is_refused_with_its_line_its_path_and_the_nearest_key(file: Path) -> None:
    actual = complaint(file, "topics:\n  orders:\n    partitions: 3\n    retenton: 7d\n")

    assert f"{file}:4:5: topics.orders.retenton: this key is not known; did you mean 'retention'?" == actual


def test_an_unknown_key_that_resembles_no_other_gets_no_suggestion(file: Path) -> None:
    actual = complaint(file, "\nxyzzy: 1\n")

    assert f"{file}:2:1: xyzzy: this key is not known" == actual


@pytest.mark.parametrize(("begin", "column"), [("[", 51), ("{a: ", 198), ("- ", 101)], ids=["list", "map", "block"])
def test_what_is_nested_deeper_than_anybody_writes_is_refused_before_it_costs_anything(
    file: Path, begin: str, column: int
) -> None:
    leaves = ", ".join(["x"] * 2_000)  # each has a place, with as many keys on the way to it as it is deep
    actual = complaint(file, begin * 800 + leaves)

    assert f"{file}:1:{column}: not valid YAML: this is nested more than 50 levels deep" == actual


def test_a_doubled_key_is_refused_with_the_line_of_the_second(file: Path) -> None:
    actual = complaint(file, "topics:\n  a:\n    partitions: 1\n  b: {}\n  a:\n    partitions: 2\n")

    assert f"{file}:5:3: not valid YAML: the key 'a' occurs twice" == actual


def test_the_same_key_in_two_places_is_not_doubled(file: Path) -> None:
    file.write_text("topics:\n  a:\n    partitions: 1\n  b:\n    partitions: 1\n")

    assert ["a", "b"] == list(document.load(file, Project).topics)


def test_a_missing_key_is_named_at_the_line_of_what_lacks_it(file: Path) -> None:
    actual = complaint(file, "# ours\ncluster:\n  type: external\n")

    assert f"{file}:2:1: cluster.bootstrap_servers: this key is required" == actual


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param("nodez: 3", "cluster.nodez: this key is not known; did you mean 'nodes'?", id="unknown key"),
        pytest.param("nodes: 0", "cluster.nodes: it must be at least 1", id="too small"),
        pytest.param(
            "heap: 9x",
            "cluster.heap: '9x' is not a size: write a number and one of"
            " B, KB, MB, GB, TB, KiB, MiB, GiB, TiB, such as 1GB",
            id="no size",
        ),
    ],
)
def test_a_path_inside_a_cluster_leaves_out_the_kind_of_cluster(file: Path, line: str, expected: str) -> None:
    actual = complaint(file, f"cluster:\n  type: local\n  {line}\n")

    assert f"{file}:3:3: {expected}" == actual


def test_a_path_inside_a_security_inside_a_cluster_leaves_out_both_kinds(file: Path) -> None:
    text = "cluster:\n  type: external\n  bootstrap_servers: a:1\n  security:\n    type: tls\n    ca_fil: x\n"

    actual = complaint(file, text)

    assert f"{file}:6:5: cluster.security.ca_fil: this key is not known; did you mean 'ca_file'?" == actual


def test_several_problems_give_a_line_each(file: Path) -> None:
    text = "topics:\n  a:\n    partitions: 0\n  b:\n    replicaton: 3\ncluster:\n  type: local\n  port: -1\n"

    actual = complaint(file, text)

    expected = {
        f"{file}:3:5: topics.a.partitions: it must be at least 1",
        f"{file}:5:5: topics.b.replicaton: this key is not known; did you mean 'replication'?",
        f"{file}:8:3: cluster.port: it must be at least 0",
    }
    assert expected == set(actual.splitlines())


@pytest.mark.parametrize("parts", [["topics", "cluster"], ["cluster", "topics"]], ids=" ".join)
def test_several_problems_are_told_from_the_top_of_the_file_to_its_end(file: Path, parts: list[str]) -> None:
    wrong = {"topics": "topics:\n  a: {partitions: 0}\n", "cluster": "cluster:\n  port: -1\n"}

    actual = complaint(file, "".join(wrong[part] for part in parts))

    assert [f"{file}:2", f"{file}:4"] == [line.partition(": ")[0].rpartition(":")[0] for line in actual.splitlines()]


def test_a_broken_file_is_refused_with_the_line_where_it_breaks(file: Path) -> None:
    actual = complaint(file, "topics:\n  a: [1, 2\nb: 3\n")

    assert f"{file}:3:2: not valid YAML: a bracket that line 2 opens is not closed, or a comma is missing" == actual


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("a: 1\n\tb: 2\n", ":2:1: not valid YAML: there is a tab here; indent with spaces"),
        ("a: 1\n b: 2\n", ":2:3: not valid YAML: a colon does not belong here; indent as the lines above"),
        ('a: "x = "y""\n', ":1:10: not valid YAML: there is text after a closing quote"),
        ("a:\n - b: 1\n   - c: 2\n", ":3:4: not valid YAML: this line is indented differently from the lines above"),
        ('{"a": 1}\n{"a": 2}\n', ":2:1: not valid YAML: another document begins here, and a file holds only one"),
        ('a: "x\nb: 1\n', ":3:1: not valid YAML: a quote that line 1 opens is not closed"),
        ("a: 1\ntopics\nb: {c: 1}\n", ":3:1: not valid YAML: line 2 has no colon after its key"),
    ],
)
def test_the_usual_mistakes_in_yaml_are_told_in_plain_words(file: Path, content: str, expected: str) -> None:
    actual = complaint(file, content)

    assert actual.startswith(f"{file}{expected}")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(b"topics: \x00\n", "not valid YAML: unacceptable character #x0000", id="NUL"),
        pytest.param(b"topics: \xff\xfe\n", "is not UTF-8 text", id="Latin-1"),
        pytest.param(b"- a\n- b\n", "the file: `key: value` lines are needed here", id="a list"),
        pytest.param(b"just words\n", "the file: `key: value` lines are needed here", id="a word"),
    ],
)
def test_what_is_no_document_is_refused(file: Path, content: bytes, expected: str) -> None:
    actual = complaint(file, content)

    assert actual.startswith(str(file))
    assert expected in actual


def test_a_file_that_powershell_wrote_is_answered_with_how_to_save_it(file: Path) -> None:
    file.write_text("topics: {}\n", encoding="utf-16")

    with pytest.raises(BadInput) as refused:
        document.load(file, Project)

    assert "Save it in the encoding UTF-8" == refused.value.fix


def test_a_tag_that_would_build_a_python_object_is_refused(file: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace"

    actual = complaint(file, f"topics: !!python/object/apply:os.mkdir [{trace}]\n")

    assert actual.startswith(f"{file}:1:9: not valid YAML: could not determine a constructor")
    assert not trace.exists()


@pytest.mark.parametrize("value", ["!canary-1", "!!canary-1", "!canary!1", "!<canary-1>"])
def test_a_password_that_looks_like_a_tag_is_not_repeated(file: Path, value: str) -> None:
    actual = complaint(file, f"cluster:\n  type: {value}\n")

    assert actual.startswith(f"{file}:2:9: ")
    assert "canary" not in actual


def test_a_password_written_into_the_file_is_refused_without_repeating_it(file: Path) -> None:
    text = (
        "cluster:\n  type: external\n  bootstrap_servers: a:1\n  security:\n    type: scram\n    password: canary-1\n"
    )

    actual = complaint(file, text)

    assert f"{file}:6:5: cluster.security.password: a secret is not written here" in actual
    assert "canary-1" not in actual


def test_a_folder_in_place_of_the_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="is a directory, and a YAML file belongs there"):
        document.load(tmp_path, Project)


def test_a_missing_file_is_not_found_and_leads_to_init(file: Path) -> None:
    with pytest.raises(NotFound) as caught:
        document.load(file, Project)

    assert f"{file} is not there. Run: penstock init" == str(caught.value)
