"""Times in ids."""

import numpy as np

from penstock.lineage.keys import time_of
from penstock.lineage.store.columns import to_us
from penstock.lineage.store.row_columns import created_us
from penstock.uuid7 import uuid7


def test_the_time_in_an_id_is_the_same_for_a_fact_and_for_a_row_however_far_away_it_is() -> None:
    far = uuid7(250_000_000_000_123, 1)

    as_fact = time_of(far)

    assert as_fact is not None
    assert [to_us(as_fact)] == created_us(np.array([far.bytes], "V16")).tolist()
