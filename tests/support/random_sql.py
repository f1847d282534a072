"""Random SQL expressions of every form that workers evaluate, and rows with every edge that those have."""

import datetime
import itertools
import math
import random
import re
import struct
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa

INTEGERS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_WORDS = [
    *(
        "",
        " ",
        "a",
        "b",
        "ab",
        "abc",
        " a ",
        "\ta\n",
        "a\nb",
        "%",
        "_",
        "a_b",
        "a%b",
        "it's",
        "\\",
        "\\%",
        "aaa",
        "\u00a0a\u00a0",
    ),
    *(
        "ä",
        "ß",
        "ÄÖ",
        "İ",
        "e\u0301",
        "\u2028",
        "\uffff",
        "\U0001f600",
        "\U0001f600a\U0010ffff",
        "σς",
        "ab" * 3000,
        "\x00",
        "a\x00b",
    ),
]
_TIMES_US = [
    *(0, -1, 1, 999_999, -999_999, -1_000_000, 86_400_000_000, -86_400_000_000, 3_599_999_999, -62_135_596_800_000_000),
    *(253_402_300_799_999_999, 951_782_400_000_000, 951_868_799_999_999, -2_203_891_200_000_001, 1_709_164_800_000_000),
    *(4_107_542_399_999_999, -11_644_473_600_000_001, 1_767_225_600_000_000, 1_767_225_599_999_999),
]
_ENDS_US = [-(2**63), 2**63 - 1, -(2**63) + 1_000_000]
"""Times that Arrow and Spark can hold, and no calendar of Python's; they are in rows and not in literals."""
_DAYS = [0, -1, 1, -719_162, 2_932_896, 11_016, 11_017, -25_509, 19_782, 19_783, 20_454, 20_453, -141_428, 47_540]
_DOUBLES = [
    *(
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.1,
        1.5,
        -2.5,
        3.0,
        1e308,
        -1e308,
        5e-324,
        2.0**53,
        2.0**53 + 2,
        2.0**63,
        -(2.0**63),
        1e16,
    ),
    *(math.nan, math.inf, -math.inf, 123456.789, 2.0**31, 1e-7),
]
_FLOATS = [0.0, -0.0, 1.0, -1.5, 0.10000000149011612, 3.4028234663852886e38, 1.401298464324817e-45, 16777216.0]
_FLOATS += [math.nan, math.inf, -math.inf]


_DECIMALS = [
    Decimal(each) for each in ("0.00", "-0.01", "0.01", "1.00", "1.50", "-100.00", "99999999.99", "-99999999.99")
]


def _whole(bits: int) -> list[int]:
    end = 1 << (bits - 1)
    return [0, 1, -1, 2, -2, 3, 7, 10, 100, end - 1, -end, end - 2, -end + 1, end // 2, -(end // 2), int(end**0.5) + 1]


_EDGES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "boolean": (pa.bool_(), [True, False]),
    "tinyint": (pa.int8(), _whole(8)),
    "smallint": (pa.int16(), _whole(16)),
    "int": (pa.int32(), _whole(32)),
    "bigint": (pa.int64(), _whole(64)),
    "float": (pa.float32(), _FLOATS),
    "double": (pa.float64(), _DOUBLES),
    "decimal": (pa.decimal128(10, 2), _DECIMALS),
    "string": (pa.string(), _WORDS),
    "date": (pa.date32(), [*_DAYS, -(2**31), 2**31 - 1]),
    "timestamp": (pa.timestamp("us", tz="UTC"), [*_TIMES_US, *_ENDS_US]),
    "timestamp_ntz": (pa.timestamp("us"), [*_TIMES_US, *_ENDS_US]),
}
TYPES = list(_EDGES)
COLUMNS = {kind: [f"{kind}_{number}" for number in range(3)] for kind in TYPES}


def rows(dice: random.Random, count: int) -> pa.RecordBatch:
    """Make rows of three columns of each type, one of them without nulls, and a struct."""
    made: dict[str, pa.Array] = {}
    for kind, names in COLUMNS.items():
        for number, name in enumerate(names):
            made[name] = _column(dice, kind, count, nulls=number)
    parts = [_column(dice, kind, count, nulls=1) for kind in ("int", "string", "double")]
    gone = pa.array([dice.random() < 0.2 for _ in range(count)])
    made["box"] = pa.StructArray.from_arrays(parts, ["w", "label", "load"], mask=gone)
    return pa.RecordBatch.from_pydict(made)


def _column(dice: random.Random, kind: str, count: int, nulls: int) -> pa.Array:
    arrow, edges = _EDGES[kind]
    values = [None if dice.random() < 0.15 * nulls else _value(dice, kind, edges) for _ in range(count)]
    plain = pa.int32() if kind == "date" else pa.int64() if kind.startswith("timestamp") else arrow
    return pa.array(values, plain).cast(arrow)


def _value(dice: random.Random, kind: str, edges: list[Any]) -> Any:
    if dice.random() < 0.6 or kind == "boolean":
        return dice.choice(edges)
    if kind in INTEGERS:
        return dice.choice([dice.randrange(-5, 6), dice.randrange(-(1 << INTEGERS[kind] - 1), 1 << INTEGERS[kind] - 1)])
    if kind == "double":
        return struct.unpack("d", dice.randbytes(8))[0]
    if kind == "float":
        return struct.unpack("f", dice.randbytes(4))[0]
    if kind == "decimal":
        return Decimal(dice.randrange(-(10**10) + 1, 10**10)).scaleb(-2)
    if kind == "string":
        return "".join(dice.choices("ab %_\\Aßä\U0001f600\n", k=dice.randrange(6)))
    if kind == "date":
        return dice.randrange(-719_162, 2_932_897)
    return dice.randrange(-62_135_596_800_000_000, 253_402_300_800_000_000)


def _quoted(text: str) -> str:
    return "'{}'".format(text.replace("\\", "\\\\").replace("'", "\\'"))


def _literals(kind: str) -> list[str]:
    edges = _EDGES[kind][1]
    if kind == "boolean":
        return ["true", "false", "CAST(NULL AS boolean)"]
    if kind in INTEGERS:
        return [f"CAST({each} AS {kind})" for each in edges] + (["1", "0", "-3"] if kind == "int" else [])
    if kind in {"float", "double"}:
        return [f"CAST('{each}' AS {kind})" for each in edges] + (["1.5", "0e0"] if kind == "double" else [])
    if kind == "decimal":
        return [*(f"CAST('{each}' AS decimal(10,2))" for each in edges), "1.5BD", "CAST(NULL AS decimal(10,2))"]
    if kind == "string":
        return [*map(_quoted, _WORDS[:26]), "CAST(NULL AS string)"]
    epoch = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - a calendar, and no clock
    if kind == "date":
        return [f"DATE'{(epoch + datetime.timedelta(days=each)):%Y-%m-%d}'" for each in _DAYS[4:]]
    keyword = {"timestamp": "TIMESTAMP_LTZ", "timestamp_ntz": "TIMESTAMP_NTZ"}[kind]
    times = [epoch + datetime.timedelta(microseconds=each) for each in _TIMES_US[:9]]
    return [f"{keyword}'{each:%Y-%m-%d %H:%M:%S.%f}'" for each in times]


_LITERALS = {kind: _literals(kind) for kind in TYPES}
_UNITS = ("microsecond", "MILLISECOND", "second", "minute", "hour", "dd")
_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "<=>", "IS NOT DISTINCT FROM")
_PATTERNS = ["a%", "%b", "%a%", "a%b", "_", "a_%b", "%", "", "_ä%", "a", "%\n%_", ".*", "(%", "%_%_", "[a]%", "😀_%"]
_ANY = [
    *(
        "CASE WHEN {boolean} THEN {same} WHEN {boolean} THEN {same} ELSE {same} END",
        "CASE WHEN {boolean} THEN {same} END",
    ),
    *("if({boolean}, {same}, {same})", "coalesce({same}, {same}, {same})", "nullif({same}, {same})"),
]
_NUMBERS = [
    "({same} + {same})",
    "({same} - {same})",
    "({same} * {same})",
    "({same} % {same})",
    "(- {same})",
    "abs({same})",
]
_DECIMAL_CASTS = [("tinyint", "5,2"), ("smallint", "7,2"), ("int", "12,2"), ("bigint", "38,2"), ("decimal", "14,4")]
_FORMS: dict[str, list[str]] = {
    "boolean": [
        *(f"({{other}} {sign} {{other}})" for sign in _COMPARISONS),
        *("({other} IS NULL)", "({other} IS NOT NULL)", "({other} BETWEEN {other} AND {other})"),
        *("({other} IN ({list}))", "({other} NOT IN ({list}))", "({string} LIKE {pattern})", "isnan({double})"),
        *("({same} AND {same})", "({same} OR {same})", "(NOT {same})", "({same} IS TRUE)", "({same} IS NOT FALSE)"),
        *(f"{name}({{string}}, {{text}})" for name in ("startswith", "endswith", "contains")),
    ],
    **{
        kind: _NUMBERS + [f"CAST({{{other}}} AS {kind})" for other in INTEGERS if INTEGERS[other] < bits]
        for kind, bits in INTEGERS.items()
    },
    **{kind: _NUMBERS + [f"CAST({{{other}}} AS {kind})" for other in INTEGERS] for kind in ("float", "double")},
    "decimal": [f"CAST({{{other}}} AS decimal({size}))" for other, size in _DECIMAL_CASTS],
    "string": [
        *("concat({same}, {same}, {same})", "({same} || {int})", "trim({same})", "ltrim({same})", "rtrim({same})"),
        *(f"substring({{same}}, {first}, {length})" for first in (0, 1, 2, 5) for length in (-1, 0, 3, 2147483647)),
        *("left({same}, 2)", "substr({same}, 3)", "box.label"),
        *(f"CAST({{{other}}} AS string)" for other in (*INTEGERS, "boolean")),
    ],
    "date": [
        *("CAST({timestamp} AS date)", "CAST({timestamp_ntz} AS date)", "to_date({timestamp})"),
        *(f"trunc({{same}}, '{unit}')" for unit in ("week", "MON", "Quarter", "YY")),
    ],
    "timestamp": [f"date_trunc('{unit}', {{same}})" for unit in (*_UNITS, "WEEK", "mm", "quarter", "YEAR")],
    "timestamp_ntz": [],
}
_FORMS["int"] += [
    f"{part}({{{kind}}})" for part in ("year", "quarter", "month", "day", "dayofweek") for kind in ("date", "timestamp")
]
_FORMS["int"] += [f"{part}({{{kind}}})" for part in ("hour", "minute", "second") for kind in TYPES[-2:]]
_FORMS["int"] += ["length({string})", "box.w", "({int} + {smallint})", "year({timestamp_ntz})"]
_FORMS["bigint"] += ["({same} div {same})", "({int} div {int})", "({bigint} * {int})"]
_FORMS["double"] += ["({double} / {double})", "({int} / {bigint})", "({double} * {int})", "CAST({float} AS double)"]
_FORMS["double"] += ["({float} / {smallint})", "box.load", "({float} * {double})"]
_HOLE = re.compile(r"{(\w+)}")


def each_form(dice: random.Random) -> list[str]:
    """Make an expression of every form, over columns alone: what is made of literals Spark works out beforehand."""
    made = []
    for kind in TYPES:
        for form in (*_ANY, *_FORMS[kind]):
            other = dice.choice(TYPES)
            given: dict[str, Iterator[str]] = {name: itertools.cycle(COLUMNS[name][::-1]) for name in TYPES}
            given |= {"same": given[kind], "other": given[other]}
            given |= {
                "text": iter(["'a'"]),
                "pattern": iter(["'a_%b'"]),
                "list": iter([", ".join(_LITERALS[other][:12])]),
            }
            made.append("".join(next(given[each]) if each in given else each for each in _HOLE.split(form)))
    return made + [f"(string_0 LIKE {_quoted(each)})" for each in _PATTERNS]


def expression(dice: random.Random, kind: str | None = None, depth: int = 3) -> str:
    """Make SQL of one type, or of any."""
    kind = kind or dice.choice(TYPES)
    if depth == 0 or dice.random() < 0.1:
        return dice.choice(COLUMNS[kind]) if dice.random() < 0.7 else dice.choice(_LITERALS[kind])
    form = dice.choice(_ANY if dice.random() < 0.25 or not _FORMS[kind] else _FORMS[kind])
    return _filled(dice, form, kind, depth)


def _filled(dice: random.Random, form: str, kind: str, depth: int) -> str:
    other = dice.choice(TYPES)
    named = {"same": kind, "other": other}
    special = {
        "list": lambda: ", ".join(dice.choices(_LITERALS[other], k=dice.randrange(1, 15))),
        "pattern": lambda: _quoted(dice.choice(_PATTERNS)),
        "text": lambda: dice.choice(_LITERALS["string"]),
    }

    def filled(hole: "re.Match[str]") -> str:
        name = hole[1]
        return special[name]() if name in special else expression(dice, named.get(name, name), depth - 1)

    return _HOLE.sub(filled, form)
