"""What the overview says needs attention."""

from penstock.console.api.overview import _of_letters


def test_the_pipelines_with_the_most_dead_letters_are_named_and_others_are_counted() -> None:
    counts = {f"p{number:02}": number for number in range(1, 31)} | {"": 7}
    told = [(each.what, each.about) for each in _of_letters(counts)]

    assert ("30 dead letters of pipeline 'p30'", "dead-letters:p30") == told[19]
    assert ("11 dead letters of pipeline 'p11'", "dead-letters:p11") == told[0]
    assert (f"{sum(range(1, 11)) + 7} dead letters of further pipelines", "dead-letters:") == told[20]
    assert 21 == len(told)


def test_dead_letters_of_few_pipelines_are_named_alone() -> None:
    assert ["1 dead letter of pipeline 'a'", "2 dead letters of pipeline 'b'"] == [
        each.what for each in _of_letters({"b": 2, "a": 1})
    ]
