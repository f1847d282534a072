"""The same work in plain PySpark, as Spark's and Delta's guides show it; malformed events are left out silently.

Run as a program it is what a user would put into cron: it imports nothing of Penstock's.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def land(
    spark: "SparkSession", servers: str, topic: str, schema: str, folder: Path, avro_schema: str | None = None
) -> None:
    """Read what a topic holds, as JSON or as Avro behind an id, parse it, and append it to a Delta table."""
    from pyspark.sql import functions as F  # noqa: N812 - as in every PySpark program

    table = str(folder / "table")

    def write(batch: "DataFrame", number: int) -> None:
        batch.write.format("delta").mode("append").option("txnAppId", folder.name).option("txnVersion", number).save(
            table
        )

    events = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    if avro_schema is None:
        event = F.from_json(F.col("value").cast("string"), schema)
    else:
        from pyspark.sql.avro.functions import from_avro

        event = from_avro(F.expr("substring(value, 6)"), avro_schema, {"mode": "PERMISSIVE"})
    rows = (
        events.select(event.alias("event"))
        .select("event.*")
        .where("id IS NOT NULL AND note IS NOT NULL AND price >= 0 AND quantity BETWEEN 1 AND 1000")
        .withColumn("total", F.col("price") * F.col("quantity"))
    )
    query = (
        rows.writeStream.foreachBatch(write)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def _main(servers: str, topic: str, schema: str, folder: str, jars: str) -> None:
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[*]")
        .config("spark.jars", jars)
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .getOrCreate()
    )
    land(spark, servers, topic, schema, Path(folder))
    spark.stop()


if __name__ == "__main__":
    _main(*sys.argv[1:])
