import os

import pytest

from penstock.console import serve
from penstock.listening import listen


def test_a_console_on_another_port_than_the_usual_one_says_who_has_that(monkeypatch: pytest.MonkeyPatch) -> None:
    options = serve.ConsoleOptions(
        host="127.0.0.1", port=None, sign_in=False, role="admin", downloads=True, certificate=None, key=None
    )
    told: list[str] = []
    with listen("127.0.0.1", 0, "a test") as taken:
        taken.listen()
        usual = taken.getsockname()[1]
        monkeypatch.setattr(serve, "USUAL_PORT", usual)
        with serve._listen(options, told.append) as other:
            port = other.getsockname()[1]

    assert port != usual
    (line,) = told
    assert line.startswith(f"the console cannot listen at 127.0.0.1:{usual}: ")
    assert line.endswith(f"(process {os.getpid()}) has the port; another port is used")
