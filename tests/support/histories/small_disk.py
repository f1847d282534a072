"""A disk that is soon full, for whoever may mount one."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SIZE = "96m"


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """Put a small disk at a folder; without the right to mount, the folder stays one of the large disk."""
    folder.mkdir(parents=True)
    mounted = subprocess.run(
        ["/bin/mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "penstock-history", str(folder)],
        capture_output=True,
        check=False,
    )
    try:
        yield
    finally:
        if mounted.returncode == 0:
            subprocess.run(["/bin/umount", "--lazy", str(folder)], check=True)
