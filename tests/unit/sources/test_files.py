"""Files of lines, read with little memory whatever they hold."""

import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.errors import BadInput
from penstock.record.positions import OffsetRange
from penstock.sources import files
from penstock.sources.files import Files, FilesSource

MB = 2**20
READ = """
import re, sys
from pathlib import Path
from penstock.errors import BadInput
from penstock.sources.files import Files, FilesSource
try:
    FilesSource(Files(path=Path(sys.argv[1]))).available()
except BadInput as error:
    print(error, file=sys.stderr)
print(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
"""


def bomb(file: Path, megabytes: int) -> None:
    """Write one line of so many MB, without an end, in a small file."""
    with gzip.open(file, "wb", compresslevel=1) as lines:
        for _ in range(megabytes):
            lines.write(b"x" * MB)


def test_a_line_that_is_too_long_for_memory_is_refused_and_its_file_and_number_named(tmp_path: Path) -> None:
    file = tmp_path / "lines.gz"
    bomb(file, 300)

    ended = subprocess.run(
        [sys.executable, "-c", READ, str(file)], capture_output=True, text=True, timeout=60, check=False
    )

    assert file.stat().st_size < 3 * MB
    assert f"line 1 of {file} has more than 64 MB" in ended.stderr
    assert int(ended.stdout) < 300 * 1024


def test_a_chunk_ends_where_memory_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_LONGEST_LINE", 64)
    file = tmp_path / "lines"
    file.write_bytes(b"".join(b"%d" % number * 30 + b"\n" for number in range(5)))
    source = FilesSource(Files(path=file))
    (available_range,) = source.available()

    chunks = [
        (rows.num_rows, reached)
        for rows, reached in source.reader().chunks(OffsetRange(available_range.source_partition, 1, 5))
    ]

    assert [(3, 4), (1, 5)] == chunks


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (gzip.compress(b"a\nb\n" * 1000)[:-20], "is not a whole gzip file"),
        (b"no gzip at all", "is not a whole gzip file, after line 0"),
        (gzip.compress(b"a\n" * 5) + b"more", "is not a whole gzip file, after line 5"),
    ],
    ids=["cut off", "something else", "with something behind it"],
)
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes, said: str) -> None:
    file = tmp_path / "lines.gz"
    file.write_bytes(content)

    with pytest.raises(BadInput, match=said) as refused:
        FilesSource(Files(path=file)).available()

    assert str(file) in str(refused.value)


def test_a_link_that_leads_out_of_the_folder_is_refused_and_one_within_is_one_file(tmp_path: Path) -> None:
    (tmp_path / "private").write_text("canary-81\n")
    folder = tmp_path / "shared"
    folder.mkdir()
    (folder / "events").write_text("1\n2\n")
    (folder / "same").symlink_to("events")
    source = FilesSource(Files(path=folder))

    within = [(each.source_partition.topic, each.end) for each in source.available()]
    (folder / "theirs").symlink_to(tmp_path / "private")

    assert [(str(folder / "events"), 2)] == within
    with pytest.raises(BadInput, match=r"theirs is a link that leads out of the folder"):
        source.available()


def test_a_link_to_what_lies_deeper_in_the_folder_is_refused_for_that_can_become_a_link_to_anywhere(
    tmp_path: Path,
) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "events").write_bytes(b"1\n")
    (tmp_path / "link").symlink_to("sub/events")

    with pytest.raises(BadInput, match=r"link is a link that leads out of the folder"):
        FilesSource(Files(path=tmp_path)).available()


def test_a_pipe_in_the_place_of_a_listed_file_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "events").write_bytes(b"1\n")
    (available_range,) = FilesSource(Files(path=tmp_path)).available()
    (tmp_path / "events").unlink()
    os.mkfifo(tmp_path / "events")

    with pytest.raises(BadInput, match="events is no longer a file"):
        list(FilesSource(Files(path=tmp_path)).reader().chunks(OffsetRange(available_range.source_partition, 0, 1)))


def test_a_file_that_became_a_link_since_it_was_listed_is_not_followed(tmp_path: Path) -> None:
    file = tmp_path / "events"
    file.write_text("1\n")
    source = FilesSource(Files(path=tmp_path))
    (available_range,) = source.available()
    file.rename(tmp_path / "_other")
    file.symlink_to(tmp_path / "_other")

    with pytest.raises(BadInput, match="symbolic links"):
        list(source.reader().chunks(OffsetRange(available_range.source_partition, 0, 1)))


def test_a_file_that_is_named_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "events").write_text("1\n")
    (tmp_path / "link").symlink_to("events")

    (available_range,) = FilesSource(Files(path=tmp_path / "link")).available()

    assert 1 == available_range.end
