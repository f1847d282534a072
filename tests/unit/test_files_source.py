"""Files of lines, read with little memory whatever they hold."""

import gzip
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.delivery.positions import Stretch
from penstock.errors import BadInput
from penstock.sources import files
from penstock.sources.files import Files, FilesFeed

MB = 2**20
READ = """
import re, sys
from pathlib import Path
from penstock.errors import BadInput
from penstock.sources.files import Files, FilesFeed
try:
    FilesFeed(Files(path=Path(sys.argv[1]))).extents()
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
    feed = FilesFeed(Files(path=file))
    (extent,) = feed.extents()

    chunks = [(rows.num_rows, reached) for rows, reached in feed.reader().chunks(Stretch(extent.place, 1, 5))]

    assert [(3, 4), (1, 5)] == chunks


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (gzip.compress(b"a\nb\n" * 1000)[:-20], "is no whole gzip file"),
        (b"no gzip at all", "is no whole gzip file, behind line 0"),
        (gzip.compress(b"a\n" * 5) + b"more", "is no whole gzip file, behind line 5"),
    ],
    ids=["cut off", "something else", "with something behind it"],
)
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes, said: str) -> None:
    file = tmp_path / "lines.gz"
    file.write_bytes(content)

    with pytest.raises(BadInput, match=said) as refused:
        FilesFeed(Files(path=file)).extents()

    assert str(file) in str(refused.value)
