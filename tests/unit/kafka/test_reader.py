import subprocess
import sys

from penstock.kafka.connection import Connection
from penstock.kafka.failures import Causes
from penstock.kafka.reader import reading


def test_the_wait_of_a_bounded_read_is_short_unless_the_user_says_otherwise() -> None:
    plain = Connection(bootstrap_servers="127.0.0.1:1")
    patient = Connection(bootstrap_servers="127.0.0.1:1", client_settings={"fetch.wait.max.ms": 200})

    waits = [reading(each, Causes(each), wait_ms=10)["fetch.wait.max.ms"] for each in (plain, patient)]

    assert [10, 200] == waits
    assert "fetch.wait.max.ms" not in reading(plain, Causes(plain))


def test_looking_at_dead_letters_does_not_load_what_sends_them() -> None:
    program = (
        "import sys\n"
        "import penstock.cli.dead, penstock.delivery.selection, penstock.operate.known_ledger\n"
        "print(sorted({'pyarrow', 'pyspark', 'deltalake'} & set(sys.modules)))"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert "[]\n" == done.stdout
