"""The names of services, for code that only needs a name."""

from typing import Literal, get_args

ServiceName = Literal["registry", "connect", "gateway", "lineage", "console", "simulator"]
SERVICE_NAMES: tuple[ServiceName, ...] = get_args(ServiceName)
"""In the order in which they are started: each needs only those before it."""
