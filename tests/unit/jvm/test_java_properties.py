import random

from penstock.jvm.java_properties import properties_text

UNESCAPED = {"n": "\n", "r": "\r", "t": "\t", "f": "\f"}


def read_as_java_does(line: str) -> tuple[str, str]:
    """Undo the escapes of java.util.Properties on one `name=value` line."""
    name, _, written = line.partition("=")
    units: list[str] = []
    rest = iter(written.lstrip(" \t\f"))
    for letter in rest:
        if letter != "\\":
            units.append(letter)
            continue
        escaped = next(rest)
        units.append(
            chr(int("".join(next(rest) for _ in range(4)), 16)) if escaped == "u" else UNESCAPED.get(escaped, escaped)
        )
    return name, "".join(units).encode("utf-16", "surrogatepass").decode("utf-16")


def test_a_name_stays_one_name_whatever_is_in_it() -> None:
    assert "a\\=b\\ c\\:d\\ne=value\n" == properties_text({"a=b c:d\ne": "value"})


def test_java_reads_back_exactly_what_was_written() -> None:
    dice = random.Random(20)
    alphabet = "ab \\\n\r\t\f=:#!\"';é€\U0001f600"
    for _ in range(2000):
        value = "".join(dice.choices(alphabet, k=dice.randrange(12)))

        written = properties_text({"some.name": value})

        assert written.isascii()
        assert 1 == written.count("\n")
        assert ("some.name", value) == read_as_java_does(written.rstrip("\n"))
