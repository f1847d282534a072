"""The process that Spark forks Python workers from, with everything imported that tasks need.

Without it every worker imports Arrow and the rest for itself, which takes longer than most batches. Named to Spark by
`spark.python.daemon.module`.
"""
# ruff: noqa: F401 - imported here, so that no forked worker has to

import gc

import pandas
import pyspark.worker
from pyspark.daemon import manager

import penstock.sinks.kafka
import penstock.sources.kafka_reader
import penstock.steps.python
import penstock.worker.sql_tasks
import penstock.worker.tasks

if __name__ == "__main__":
    # A chunk of events is tens of thousands of objects that live for a moment and never point in circles. Looking for
    # circles as often as Python does by itself took a fifth of a worker's time.
    gc.freeze()
    gc.set_threshold(50_000)
    manager()
