"""Ctrl-C in the midst of `down`."""

import signal
import subprocess
import sys
from pathlib import Path

from penstock.broker import planning
from penstock.broker.cluster import Cluster
from penstock.config.project import LocalCluster

from support.waiting import until

STUBBORN = """
import pathlib, signal, sys
signal.signal(signal.SIGTERM, lambda *_: pathlib.Path("told").touch())
print(flush=True)
while True:
    signal.pause()
"""


def test_ctrl_c_in_down_says_what_still_runs_and_what_to_type(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path / "home" / "broker", tmp_path)
    planning.new_cluster(cluster.folder, "4.3.1", LocalCluster(port=0)).save(cluster.folder)
    node = cluster.node(1)
    node.folder.mkdir(parents=True)
    command = [sys.executable, "-c", STUBBORN, "kafka.Kafka", str(node.properties)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=tmp_path) as stubborn:
        assert stubborn.stdout is not None
        stubborn.stdout.readline()
        down = [sys.executable, "-m", "penstock", "--home", str(tmp_path / "home"), "down"]
        with subprocess.Popen(down, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as running:
            until((tmp_path / "told").exists)
            running.send_signal(signal.SIGINT)
            _, err = running.communicate(timeout=60)
        is_left = stubborn.poll() is None
        stubborn.kill()

    assert is_left
    assert 130 == running.returncode
    assert "interrupted: not ended yet: node 1 of Kafka. The data are safe." in err
    assert "Stop the rest with: penstock down; look with: penstock status" in err
