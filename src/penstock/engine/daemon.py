"""The process that Spark forks Python workers from, with everything imported that tasks need.

Without it every worker imports Arrow and the rest for itself, which takes longer than most batches. Named to Spark by
`spark.python.daemon.module`.
"""
# ruff: noqa: F401 - imported here, so that no forked worker has to

import pandas
import pyspark.worker
from pyspark.daemon import manager

import penstock.engine.tasks
import penstock.sinks.kafka
import penstock.sources.kafka
import penstock.steps.python

if __name__ == "__main__":
    manager()
