"""The modules beside a pipeline file, kept apart from those of other pipelines in the same process.

Python knows a module by its name alone, and two pipelines may each have a `rules.py`: where `penstock.run` is called
twice, in tests, and in Spark's Python workers, which serve every pipeline of their driver. So one folder at a time has
its turn: what was imported from it is set aside when the turn passes to another, and is back with the next one, the
same objects as before.
"""

import importlib
import os
import pkgutil
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from penstock.steps.code_line import is_users

_NEVER_THE_USERS = {"__main__", "penstock"}
_lock = threading.RLock()
_turn: "_Turn | None" = None
_entered: list[Path] = []
"""The folders that somebody is just importing from, each on behalf of the one before it."""
_inactive: dict[Path, dict[str, ModuleType]] = {}


@contextmanager
def first_in(folder: Path) -> Iterator[None]:
    """Let imports find what lies in a folder, or an archive, before all else, and nothing of another pipeline's folder.

    No other thread gets a turn meanwhile. It stays so afterwards, until another folder's turn: functions import, too.
    """
    folder = _real(folder)  # by another name it would be another folder, with modules of its own
    with _lock:
        _pass_turn_to(folder)
        _entered.append(folder)
        try:
            yield
        finally:
            _entered.pop()
            if _entered:
                _pass_turn_to(_entered[-1])


def _pass_turn_to(folder: Path) -> None:
    global _turn  # noqa: PLW0603 - a process has one table of modules
    if _turn is None or _turn.folder != folder:
        if _turn is not None:
            _turn.end()
        _turn = _Turn(folder)
    elif str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def module_names(folder: Path) -> set[str]:
    """Return what can be imported from a folder, or an archive: modules and packages, with or without `__init__.py`."""
    found = {each.name for each in pkgutil.iter_modules([str(folder)])}
    if folder.is_dir():
        found |= {each.name for each in folder.iterdir() if each.name.isidentifier() and any(each.glob("*.py"))}
    return found


def is_namesake(module: str, folder: Path) -> bool:
    """Whether a loaded module is another one than that in the folder, such as Python's own of that name."""
    folder = _real(folder)
    return _top(module) in module_names(folder) and _home(sys.modules, module) != folder


def own_modules() -> list[ModuleType]:
    """Return the modules in memory that neither Python nor an installed package has brought: the user's own."""
    found = []
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file is None or _top(name) in _NEVER_THE_USERS:
            continue
        if is_users(Path(file)):
            found.append(module)
    return found


class _Turn:
    """The time in which a folder is looked in first."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._was_on_path = str(folder) in sys.path
        known = dict(sys.modules)
        names = module_names(folder) - _NEVER_THE_USERS
        self._hidden = {}
        """Modules that the program has from elsewhere, under names that are this folder's now."""
        for name, module in known.items():
            home = _home(known, name) if _top(name) in names else None
            if home is not None and home != folder and is_users(home):
                self._hidden[name] = module
        for name in self._hidden:
            sys.modules.pop(name, None)
        self._before = set(sys.modules)
        sys.modules.update(_inactive.pop(folder, {}))
        sys.path.insert(0, str(folder))
        importlib.invalidate_caches()

    def end(self) -> None:
        """Set aside what was imported from the folder, and leave what the program itself had before."""
        known = dict(sys.modules)
        own = {
            name: module
            for name, module in known.items()
            if name not in self._before and _home(known, name) == self.folder
        }
        for name in own:
            sys.modules.pop(name, None)
        for name, module in self._hidden.items():
            sys.modules.setdefault(name, module)
        _inactive[self.folder] = own
        if sys.path.count(str(self.folder)) > self._was_on_path:
            sys.path.remove(str(self.folder))


def _top(name: str) -> str:
    return name.partition(".")[0]


def _home(known: Mapping[str, ModuleType], name: str) -> Path | None:
    """Return the folder, or archive, on Python's path that a module, or the package that it is in, was found in."""
    module = known.get(_top(name))
    file = getattr(module, "__file__", None)
    if file is not None:
        path = Path(file)
        return _real(path.parent.parent if path.stem == "__init__" else path.parent)
    parts = list(getattr(module, "__path__", ()))  # of a package without __init__.py
    return _real(Path(parts[0]).parent) if parts else None


def _real(folder: Path) -> Path:
    return Path(os.path.realpath(folder))
