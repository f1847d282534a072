"""Any Spark job reports its lineage: OpenLineage's listener, straight into Kafka or over HTTP to the gateway.

    penstock up                                        # or name your own Kafka with --bootstrap host:port
    penstock jars fetch --set openlineage              # the listener, one jar, as it is locked
    python lineage_spark.py
    python lineage_spark.py --gateway http://127.0.0.1:8002       # while `penstock gateway` runs

The job knows nothing of lineage: only the settings of its session are different. In the end the program reads the
events back from the topic and prints them. With a token for the gateway, set OPENLINEAGE_TOKEN.

Limits. The listener 1.53.0 was made for Spark 4.0 and works on 4.2; with Delta's extension in the session it leaves out
writes of aggregated rows. It warns about classes of connectors, which is harmless.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import penstock
from penstock import Admin, Connection, Reader, TopicSpec
from penstock.kafka import topics

NAME = "lineage_example"
TOPIC = "input.runs"


def by_kafka(bootstrap: str) -> dict[str, str]:
    """Return the listener's settings for Kafka."""
    to_string = "org.apache.kafka.common.serialization.StringSerializer"
    return {
        "spark.openlineage.transport.type": "kafka",
        "spark.openlineage.transport.topicName": TOPIC,
        "spark.openlineage.transport.properties.bootstrap.servers": bootstrap,
        "spark.openlineage.transport.properties.acks": "all",
        "spark.openlineage.transport.properties.key.serializer": to_string,
        "spark.openlineage.transport.properties.value.serializer": to_string,
    }


def by_http(address: str) -> dict[str, str]:
    """Return the listener's settings for the gateway."""
    chosen = {
        "spark.openlineage.transport.type": "http",
        "spark.openlineage.transport.url": address,
        "spark.openlineage.transport.compression": "gzip",
    }
    if token := os.environ.get("OPENLINEAGE_TOKEN"):
        chosen |= {"spark.openlineage.transport.auth.type": "api_key", "spark.openlineage.transport.auth.apiKey": token}
    return chosen


def jars_of(name: str) -> list[str]:
    """Return the jars of one locked set, fetched if they are missing."""
    command = [sys.executable, "-m", "penstock", "jars", "fetch", "--set", name, "--json"]
    found: list[str] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["paths"]
    return found


def run_job(transport: dict[str, str], folder: Path) -> None:
    """Write orders, then what each customer spent."""
    # Kafka's client is in the connector's set; the listener brings none.
    paths = [*jars_of("openlineage"), *jars_of("spark-kafka")]
    builder = SparkSession.builder.master("local[2]").appName(NAME)
    for name, value in {
        "spark.jars": ",".join(paths),
        "spark.extraListeners": "io.openlineage.spark.agent.OpenLineageSparkListener",
        "spark.openlineage.namespace": "examples",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        **transport,
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    orders = spark.range(1000).selectExpr("id AS order", "id % 7 AS customer", "id * 0.5 AS amount")
    orders.write.parquet(str(folder / "orders"))
    spark.read.parquet(str(folder / "orders")).createOrReplaceTempView("orders")
    totals = spark.sql("SELECT customer, sum(amount) AS spent FROM orders WHERE amount > 10 GROUP BY customer")
    totals.write.parquet(str(folder / "spent"))
    spark.stop()


def events_since(connection: Connection, since_ms: int) -> list[dict[str, Any]]:
    """Read back what the job has sent."""
    with Reader(connection, TOPIC) as reader:
        found = [json.loads(message.value() or b"{}") for message in reader if message.timestamp()[1] >= since_ms]
    return [event for event in found if event["job"]["name"].startswith(NAME)]


def main() -> None:
    """Run the job with a listener, then print what it has told."""
    parser = argparse.ArgumentParser(description="A Spark job that reports its lineage.")
    parser.add_argument("--bootstrap", help="host:port of your Kafka; the local cluster if left out")
    parser.add_argument("--gateway", help="address of a gateway; without it events go straight into Kafka")
    args = parser.parse_args()
    connection = penstock.connection(bootstrap=args.bootstrap)
    topics.ensure(Admin(connection), TOPIC, TopicSpec(partitions=4))
    began_ms = round(time.time() * 1000)
    with tempfile.TemporaryDirectory() as folder:
        transport = by_http(args.gateway) if args.gateway else by_kafka(connection.bootstrap_servers)
        run_job(transport, Path(folder))
    for event in events_since(connection, began_ms):
        inputs, outputs = ([Path(each["name"]).name for each in event.get(side, [])] for side in ("inputs", "outputs"))
        print(f"{event['eventType']:9} {event['job']['name']}: {inputs} -> {outputs}")


if __name__ == "__main__":
    main()
