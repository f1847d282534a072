"""The login for Spark's own Kafka clients: named in their settings, and held where it goes with the driver.

Settings show in Spark's plans, logs and pages, so they only say where the login is.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.driver.paths import PipelinePaths
from penstock.jvm.java_properties import properties_text
from penstock.kafka.connection import Connection
from penstock.private import write_private

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PROVIDER = "org.apache.kafka.common.config.provider.FileConfigProvider"


@contextmanager
def client_options(connection: Connection, paths: PipelinePaths, spark: "SparkSession") -> Iterator[dict[str, str]]:
    """Return the options of Spark's Kafka source and sink, valid inside the block."""
    options = {"kafka.bootstrap.servers": connection.bootstrap_servers}
    login = connection.security.java()
    if not login:
        yield options
        return
    is_local = (spark.sparkContext.master or "").startswith("local")
    content = properties_text(login).encode("ascii")
    with _in_memory(content) if is_local else _in_file(content, paths) as path:
        yield {
            **options,
            "kafka.config.providers": "file",
            "kafka.config.providers.file.class": _PROVIDER,
            **{f"kafka.{name}": f"${{file:{path}:{name}}}" for name in login},
        }


@contextmanager
def _in_memory(content: bytes) -> Iterator[Path]:
    """Hold a file without a name, which the system takes back when this process ends, however it ends."""
    descriptor = os.memfd_create("login.properties")
    try:
        os.fchmod(descriptor, 0o600)
        os.write(descriptor, content)
        yield Path(f"/proc/{os.getpid()}/fd/{descriptor}")
    finally:
        os.close(descriptor)


@contextmanager
def _in_file(content: bytes, paths: PipelinePaths) -> Iterator[Path]:
    """Hold a private file in the pipeline's folder, which executors elsewhere may have, too."""
    path = paths.folder / "login.properties"
    write_private(path, content)
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)
