"""Resolve every jar set again and write src/penstock/jvm/jars.lock.json.

Run it by hand after changing a version here; users and CI only ever read the lock.
"""

import hashlib
import json
import re
import tempfile
from pathlib import Path

from penstock.jvm.archives import content_digest, unpack
from penstock.jvm.jars import Jar, ivy_jar, resolve_with_ivy

LOCK = Path(__file__).parent.parent / "src/penstock/jvm/jars.lock.json"


def dependency(org: str, name: str, rev: str, *, transitive: bool = True, inner: str = "") -> str:
    """Write one root of a set."""
    follow = str(transitive).lower()
    return (
        f'<dependency org="{org}" name="{name}" rev="{rev}" conf="default" transitive="{follow}">{inner}</dependency>'
    )


def kafka(revision: str) -> list[str]:
    """List a broker, its command-line tools (without Connect, which they drag along) and an slf4j binding."""
    return [
        dependency("org.apache.kafka", "kafka_2.13", revision),
        dependency("org.apache.kafka", "kafka-tools", revision, transitive=False),
        dependency("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),
    ]


# The connector asks for a token provider of its own version, which is not published; 4.0.0 works with it.
TOKEN_PROVIDER = "spark-token-provider-kafka-0-10_2.13"  # noqa: S105 - an artifact's name
SETS: dict[str, list[str]] = {
    "kafka-4.3.1": kafka("4.3.1"),
    "kafka-3.9.1": kafka("3.9.1"),
    "spark-kafka": [
        dependency(
            "org.apache.spark",
            "spark-sql-kafka-0-10_2.13",
            "4.2.0",
            inner=f'<exclude org="org.apache.spark" module="{TOKEN_PROVIDER}"/>',
        ),
        dependency("org.apache.spark", TOKEN_PROVIDER, "4.0.0", transitive=False),
    ],
    "delta": [
        dependency(
            "io.delta",
            "delta-spark_4.2_2.13",
            "4.4.0",
            # PySpark's own RoaringBitmap has no separate shims, and its jcl-over-slf4j stands for commons-logging.
            inner='<exclude org="org.roaringbitmap"/><exclude org="commons-logging"/>',
        )
    ],
    # Connect comes with Kafka's tools; its own connectors and its login are apart.
    "connect": [
        dependency("org.apache.kafka", "kafka-tools", "4.3.1"),
        dependency("org.apache.kafka", "connect-file", "4.3.1"),
        dependency("org.apache.kafka", "connect-mirror", "4.3.1"),
        dependency("org.apache.kafka", "connect-basic-auth-extension", "4.3.1"),
        dependency("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),
    ],
    # One jar with all that it needs; the first versions for Scala 2.13 do not know Spark 4.
    "openlineage": [dependency("io.openlineage", "openlineage-spark_2.13", "1.53.0", transitive=False)],
    # For the bench alone; the newest that is published, which works with PySpark's version.
    "spark-avro": [dependency("org.apache.spark", "spark-avro_2.13", "4.0.1", transitive=False)],
}
ARCHIVES = {
    "registry": Jar(
        organisation="io.apicurio",
        name="apicurio-registry-app",
        revision="3.3.3",
        classifier="all",
        type="tar.gz",
        sha256="",
    )
}
INTO_SPARK = {"spark-kafka", "delta", "openlineage", "spark-avro"}


def name_and_revision(stem: str) -> tuple[str, str]:
    """Split `zstd-jni-1.5.6-10` at the last dash that a dotted number follows."""
    match = re.fullmatch(r"(.+)-(\d+\.\d.*)", stem)
    if match is None:
        raise SystemExit(f"no version in {stem}")
    return match[1], match[2]


def resolve(roots: list[str], *, without: set[str]) -> list[dict[str, str]]:
    """Resolve roots and describe every jar, leaving out artifacts that PySpark has already."""
    found = []
    with tempfile.TemporaryDirectory() as place:
        resolve_with_ivy("".join(roots), Path(place), lambda _there: None)
        for path in sorted(Path(place).glob("*__*.jar")):
            organisation, _, rest = path.stem.partition("__")
            name, revision = name_and_revision(rest)
            if name not in without:
                digest = hashlib.sha256(path.read_bytes()).hexdigest()
                found.append({"organisation": organisation, "name": name, "revision": revision, "sha256": digest})
    return found


def archived(archive: Jar) -> list[dict[str, str]]:
    """Fetch an archive and describe it and what is in it."""
    with tempfile.TemporaryDirectory() as place:
        scratch = Path(place)
        resolve_with_ivy(archive.dependency(), scratch, lambda _there: None)
        path = scratch / archive.file_name
        unpack(path, scratch / "unpacked")
        found = {
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "content_sha256": content_digest(scratch / "unpacked"),
        }
    return [archive.model_copy(update=found).model_dump()]


def main() -> None:
    """Write the lock file and say how many jars each set has."""
    spark_has = {name_and_revision(path.stem)[0] for path in ivy_jar().parent.glob("*.jar")}
    lock = {name: resolve(roots, without=spark_has if name in INTO_SPARK else set()) for name, roots in SETS.items()}
    lock |= {name: archived(archive) for name, archive in ARCHIVES.items()}
    LOCK.write_text(json.dumps(lock, indent=1) + "\n")
    for name, jars in lock.items():
        print(f"{name}: {len(jars)} jars")


if __name__ == "__main__":
    main()
