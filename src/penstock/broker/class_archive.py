"""Kafka's classes, parsed once: every node and every tool of Kafka's own starts a second sooner from then on."""

import tempfile
from pathlib import Path

from penstock.broker.cluster import Cluster
from penstock.broker.node import class_archive_of
from penstock.config.project import LocalCluster
from penstock.jvm import jars
from penstock.jvm.class_archive import being_made, making
from penstock.jvm.java import find_java

_WRITING_S = 300.0


def archive(jar_folder: Path) -> Path:
    """Name the archive of this machine's Java and the locked Kafka."""
    return class_archive_of(find_java()[0], jars.ensure(jars.KAFKA, jar_folder))


def make(jar_folder: Path) -> Path:
    """Rebuild the archive: run a node until it has stored and returned a record, and keep what it loaded."""
    path = archive(jar_folder)
    with being_made(path, jar_folder) as made, tempfile.TemporaryDirectory(prefix="penstock-warm-") as folder:
        cluster = Cluster(Path(folder) / "broker", jar_folder, java_options=making(made))
        try:
            cluster.up(LocalCluster(port=0))
        finally:
            cluster.down(_WRITING_S)
    return path
