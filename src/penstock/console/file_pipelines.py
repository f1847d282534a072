"""The pipelines that the project file names: they can be looked at and started before they have ever run."""

from contextlib import suppress
from pathlib import Path

from penstock.config import project
from penstock.config.settings import Settings
from penstock.errors import BadInput


class FilePipelines:
    """The project file's pipelines as of now; while the file cannot be read, as they were last."""

    def __init__(self, settings: Settings) -> None:
        self._file = settings.project_file
        self._named = settings.project.pipelines
        self._read = (0, 0)
        """Of the file as it was read: when it had changed, and its size."""

    def files(self) -> dict[str, Path]:
        """Return the file of each, by name."""
        if self._file is None:
            return {}
        with suppress(OSError, BadInput):
            found = self._file.stat()
            if (now := (found.st_mtime_ns, found.st_size)) != self._read:
                self._named, self._read = project.load(self._file).pipelines, now
        base = self._file.parent.absolute()
        return {name: each.file or base / f"{name}.yaml" for name, each in self._named.items()}

    def streams(self, name: str, file: Path) -> bool:
        """Return whether the project file has this pipeline go on when it has caught up, whatever its own file says."""
        named = self.files().get(name)
        return named is not None and named.resolve() == file.resolve() and self._named[name].speed == "stream"
