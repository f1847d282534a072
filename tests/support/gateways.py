"""`penstock gateway` as users have it, in a process of its own."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

LINEAGE = "/api/v1/lineage"


@dataclass(frozen=True)
class RunningGateway:
    """One `penstock gateway`."""

    process: "subprocess.Popen[str]"
    client: httpx.Client

    def post(self, content: Any, path: str = LINEAGE, **headers: str) -> httpx.Response:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        return self.client.post(path, content=body, headers={"Content-Type": "application/json", **headers})

    def stop(self) -> str:
        self.process.send_signal(signal.SIGTERM)
        _, err = self.process.communicate(timeout=240)
        assert 0 == self.process.returncode, err
        return err


@contextmanager
def running_gateway(bootstrap: str, topic: str, *options: str, folder: Path, **env: str) -> Iterator[RunningGateway]:
    command = [sys.executable, "-m", "penstock", "--bootstrap", bootstrap, "gateway", "--port", "0"]
    process = subprocess.Popen(
        [*command, "--topic", topic, *options],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **env},
    )
    try:
        assert process.stderr is not None
        line = ""
        while "taking events at" not in line:
            line = process.stderr.readline()
            assert line, "the gateway ended"
        address = line.split("taking events at ")[1].split()[0]
        with httpx.Client(base_url=address, timeout=240, trust_env=False) as client:
            yield RunningGateway(process, client)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        if process.stderr is not None:
            process.stderr.close()
