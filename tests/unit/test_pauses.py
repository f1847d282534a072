from penstock.pauses import Pauses


def test_pauses_grow_up_to_a_minute_and_begin_again_after_a_healthy_run() -> None:
    pauses = Pauses()

    assert [1, 2, 4, 8, 16, 32, 60, 60] == [pauses.after(0.5) for _ in range(8)]
    assert [1, 2] == [pauses.after(61.0), pauses.after(0.5)]
