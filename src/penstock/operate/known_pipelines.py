"""Which pipelines have run here, where their folders are, and from which file each ran. Imports no driver."""

from pathlib import Path

from penstock.config.settings import Settings
from penstock.driver.paths import PipelinePaths, pipeline_folders
from penstock.errors import NotFound
from penstock.operate import belonging
from penstock.wording import nearest

_SUFFIXES = (".yaml", ".yml", ".py")


def paths_of(settings: Settings, pipeline: str) -> PipelinePaths:
    """Return the folders of a pipeline."""
    return PipelinePaths.of(settings.home, pipeline)


def known_paths(settings: Settings, pipeline: str) -> PipelinePaths:
    """Return the folders of a pipeline that has run here; raise `NotFound` if none of this name has."""
    paths = paths_of(settings, pipeline)
    if not paths.folder.is_dir():
        meant = _meant(settings, pipeline)
        named = Path(pipeline).suffix in _SUFFIXES and not meant  # people name the file
        candidates = [Path(pipeline + suffix) for suffix in ("", *_SUFFIXES) if suffix or named]
        file = next((each for each in candidates if each.is_file()), None)
        if file is None:
            settings.require_no_cluster_above()  # there it has run, most likely
        fix = f"{meant}List them with: penstock pipeline list"
        if file is not None:
            fix = f"Start it with: penstock pipeline start {file}"
        raise NotFound(f"no pipeline '{pipeline}' has run here", fix=fix)
    return paths


def _meant(settings: Settings, typed: str) -> str:
    """Ask whether another pipeline was meant; empty if none has a similar name."""
    close = nearest(typed.removesuffix(".yaml"), [each.name for each in pipeline_folders(settings.home)])
    return f"Did you mean '{close}'? " if close else ""


def file_of(settings: Settings, which: str) -> Path:
    """Find a pipeline's file by the pipeline's name; a path is returned as it is.

    Text that looks like a name is treated as one: a file of that name in the working folder is not run for it.
    """
    if "/" in which or Path(which).suffix in _SUFFIXES:
        if not Path(which).is_file():
            from penstock.pipeline.load import missing

            raise missing(Path(which))
        return Path(which)
    return file_of_name(settings, which)


def file_of_name(settings: Settings, pipeline: str) -> Path:
    """Find the file that a pipeline ran with here; never a file that is named instead.

    For names that somebody else has written, as in a dead letter: a pipeline file may be a program.
    """
    from penstock.pipeline.spec import NAME

    try:
        if NAME.fullmatch(pipeline) is not None:
            return belonging.last_run(paths_of(settings, pipeline).folder).file
    except OSError:
        pass
    raise NotFound(
        f"no pipeline '{pipeline}' has run here",
        fix=f"{_meant(settings, pipeline)}List those that have with: penstock pipeline list;"
        " of one that has not, name the file",
    )
