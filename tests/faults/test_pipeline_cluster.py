"""A pipeline on a Spark cluster: a master and two workers of its own, one of which dies."""

from pathlib import Path

import psutil
import yaml

from penstock.lab.scenarios.spark_cluster import running

from conftest import RunningKafka
from support.chains import landed_so_far, make_chain

# The function is there only if it came along: the folder of the pipeline file is on no worker's path.
RULES = """
import os

def shipped(row):
    assert ".zip" in __file__, __file__
    assert os.environ["SHIPPED_SETTING"] == "here"
    return row
"""


def command_line(pid: int) -> list[str]:
    try:
        return psutil.Process(pid).cmdline()
    except psutil.Error:
        return []


def test_a_worker_killed_in_mid_batch_costs_nothing_but_time(kafka: RunningKafka, tmp_path: Path) -> None:
    chain = make_chain(["delta", "json", "kafka"], kafka, None, tmp_path, max_events=3000)
    document = yaml.safe_load(chain.file.read_text())
    document["steps"] = [{"python": "rules:shipped"}, {"sql": "SELECT *, n + 0 AS same FROM events"}]
    document["steps"].append({"sql": "SELECT * EXCEPT (same) FROM events"})
    settings = {"spark.executorEnv.SHIPPED_SETTING": "here", "spark.executor.memory": "512m"}
    (tmp_path / "rules.py").write_text(RULES)
    chain.journal.send(30_000)

    with running(tmp_path / "cluster") as cluster:
        secret = (tmp_path / "cluster" / "secret").read_text()
        chain.file.write_text(yaml.safe_dump({**document, "spark": {**settings, **cluster.settings}}))
        driver = chain.drive(None, "--master", cluster.master)
        driver.reach(lambda: landed_so_far(chain, "delta") > 3000 and cluster.is_working)
        lines = [line for pid in psutil.pids() for line in command_line(pid)]
        cluster.kill_a_worker()
        landed_at_the_kill = landed_so_far(chain, "delta")
        code = driver.wait()

    assert any("CoarseGrainedExecutorBackend" in line for line in lines)
    assert [] == [line for line in lines if secret in line]
    assert secret not in (kafka.home / "pipelines" / chain.name / "logs" / "spark.log").read_text()
    assert landed_at_the_kill < 29_000, "all had landed before the worker was killed"
    assert 0 == code, driver.said
    assert [] == chain.faults()
