"""What is installed only for those who ask for it, such as `pip install 'penstock[lab]'`."""

from importlib.util import find_spec
from typing import Literal

from penstock.errors import EnvironmentNotReady

# What pyproject.toml lists under each extra, by the names that are imported.
MODULES = {
    "lab": ("matplotlib", "pika", "redis", "websockets"),
    "metrics": ("prometheus_client",),
}


def require(extra: Literal["lab", "metrics"], what: str) -> None:
    """Raise `EnvironmentNotReady` unless an extra is installed whole: one line, which begins with what needs it."""
    missing = [module for module in MODULES[extra] if find_spec(module) is None]
    if missing:
        raise EnvironmentNotReady(
            f"{what} needs {', '.join(missing)}, which a plain Penstock does not bring",
            safe="Nothing was started",
            fix=f"Run: pip install 'penstock[{extra}]'",
        )
