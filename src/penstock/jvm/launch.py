"""Spark's JVM, launched without waiting for it: until it answers, this process does what else it has to do.

PySpark's own way waits, and puts every setting on the command line, secrets among them, under whatever name. Here they
are in a private file, which is gone once the JVM runs, and those that are known to hold secrets in none. PySpark
connects to what it finds running. The JVM's temporary files are in a private folder, too, whatever the umask; that of a
driver that was killed goes when the next one starts.
"""

import atexit
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from penstock.interpreter import SAFE_PATH
from penstock.jvm.jars import pyspark_folder
from penstock.jvm.java_properties import properties_text
from penstock.private import OWNER_ONLY, write_private
from penstock.secret import holds_secret

_POLL_S = 0.02
_FOLDER = re.compile(r"penstock-jvm-(?P<driver>\d{1,9})-.*")


class Jvm:
    """One JVM, from its launch until PySpark has taken it over, or it is ended."""

    def __init__(self, settings: Mapping[str, str], console: Path) -> None:
        _remove_left()
        self._folder = Path(tempfile.mkdtemp(prefix=f"penstock-jvm-{os.getpid()}-"))
        atexit.register(shutil.rmtree, self._folder, ignore_errors=True)
        self._port_file, self._settings_file = self._folder / "gateway", self._folder / "settings"
        settled = {name: value for name, value in settings.items() if not holds_secret(name)}
        write_private(self._settings_file, properties_text(settled).encode("ascii"))
        # PySpark and its scripts would look for Spark above the working folder first, where anybody may have put one.
        spark_home = os.environ.get("SPARK_HOME") or str(pyspark_folder())
        command = [f"{spark_home}/bin/spark-submit", "--properties-file", str(self._settings_file)]
        own_options = f'"-Djava.io.tmpdir={self._folder}"'
        environment = {
            # The script asks a JVM of its own for the command, and waits: one that lives for a moment needs no more.
            "SPARK_LAUNCHER_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
            **os.environ,
            **SAFE_PATH,
            "SPARK_HOME": spark_home,
            "SPARK_SUBMIT_OPTS": f"{own_options} {os.environ.get('SPARK_SUBMIT_OPTS', '')}",
            "SPARK_CONNECT_MODE": "0",
            "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._port_file),
        }
        with os.fdopen(os.open(console, os.O_WRONLY | os.O_CREAT | os.O_APPEND, OWNER_ONLY), "ab") as log:
            self.process = subprocess.Popen(
                [*command, "--load-spark-defaults", "pyspark-shell"],
                # It ends when this pipe does, which is when this process ends, however that happens.
                stdin=subprocess.PIPE,
                stdout=log,  # not ours: whoever captures this program would wait for the JVM, too
                stderr=log,
                env=environment,
                preexec_fn=_leave_interrupts_alone,  # noqa: PLW1509 - as PySpark does it
            )

    def gateway(self) -> Any:
        """Wait until it answers, and connect."""
        from pyspark.errors import PySparkRuntimeError
        from pyspark.java_gateway import launch_gateway
        from pyspark.serializers import UTF8Deserializer, read_int

        while self.process.poll() is None and not self._port_file.is_file():
            time.sleep(_POLL_S)
        try:
            with self._port_file.open("rb") as file:
                port, token = read_int(file), UTF8Deserializer().loads(file)  # type: ignore[no-untyped-call]
        except FileNotFoundError:
            raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={}) from None
        finally:
            for each in (self._port_file, self._settings_file):
                each.unlink(missing_ok=True)
        os.environ |= {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": token}
        try:
            gateway = launch_gateway()  # type: ignore[no-untyped-call]
        finally:
            del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]
        gateway.proc = self.process
        return gateway

    def end(self) -> None:
        """End it, and what its script has started; nothing has run in it yet."""
        with suppress(psutil.Error):
            for each in psutil.Process(self.process.pid).children(recursive=True):
                with suppress(psutil.Error):
                    each.kill()
        with self.process:  # closes its pipe and waits for its end
            self.process.kill()
        shutil.rmtree(self._folder, ignore_errors=True)


def _remove_left() -> None:
    """Remove the folders of drivers that are gone; those of other users are none of ours, whatever their names."""
    for folder in Path(tempfile.gettempdir()).glob("penstock-jvm-*"):
        match = _FOLDER.fullmatch(folder.name)
        with suppress(OSError):  # another driver was faster
            if match and folder.lstat().st_uid == os.geteuid() and not psutil.pid_exists(int(match["driver"])):
                shutil.rmtree(folder)


def _leave_interrupts_alone() -> None:
    """Let Ctrl-C be the driver's business: the JVM would end in the middle of a batch."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
