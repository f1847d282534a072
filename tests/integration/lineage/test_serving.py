"""The lineage service as a process: who counts as whom."""

import itertools
import re
import subprocess
from pathlib import Path

import httpx

from penstock.interpreter import SAFE_PYTHON
from penstock.lineage.sign_in.passwords import UsersFile
from penstock.lineage.store.address import StoreAddress, default_path
from penstock.lineage.store.database import migrate

from support.waiting import until


def test_whoever_guesses_passwords_waits_whomever_they_say_they_speak_for(tmp_path: Path) -> None:
    migrate(StoreAddress(store=str(default_path(tmp_path))))
    UsersFile.of(tmp_path / "lineage").put("ann", "a long password")
    command = [*SAFE_PYTHON, "-m", "penstock", "--home", str(tmp_path), "lineage", "serve", "--sign-in", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as serving:
        try:
            assert serving.stderr is not None
            said = re.search(r"http://127\.0\.0\.1:\d+", serving.stderr.readline())
            assert said is not None
            numbers = itertools.count()

            def guess() -> int:
                return httpx.post(
                    f"{said[0]}/v1/auth/token",
                    data={"username": "ann", "password": "guessed"},
                    headers={"X-Forwarded-For": f"192.0.2.{next(numbers)}"},
                    timeout=60,
                ).status_code

            answers = [guess() for _ in range(3)]
            # From here on there is a second to wait, then two, then four: whoever is slow waits for none at first.
            until(lambda: 429 == guess())
        finally:
            serving.terminate()

    assert [401, 401, 401] == answers
