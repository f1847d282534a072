"""What `make test-fast` promises about the tests in this folder."""

import pytest

from penstock.errors import EnvironmentNotReady
from penstock.jvm.java import find_java


def test_a_unit_test_finds_no_java_that_could_run_kafka_or_spark() -> None:
    with pytest.raises(EnvironmentNotReady, match=r"no-java\d*/java does not say its version"):
        find_java()
