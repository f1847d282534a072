"""Row-local Spark SQL: `SELECT ... FROM events [WHERE ...]`.

Guarantee: each event gives one row, or none if WHERE leaves it out, which counts as dropped. The columns of Penstock
come along whether or not the SELECT names them, and rows that have failed already pass through untouched. A record on
which the SQL itself fails, such as a division by zero, becomes a dead letter, and the rest of the batch goes on. A
name given in a SELECT can be used in the next step, not in the same SELECT.
"""

import itertools

import sqlglot
from pydantic import BaseModel, Field
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

_SHAPE = "a row-local step has the shape SELECT ... FROM events [WHERE ...]"
_NOT_ROW_LOCAL = {
    exp.AggFunc: "aggregates look at more than one event",
    exp.Window: "window functions look at more than one event",
    exp.UDTF: "explode and its fellows make several rows of one event",
    exp.Explode: "explode and its fellows make several rows of one event",
    exp.Subquery: "subqueries look at more than one event",
    exp.Exists: "subqueries look at more than one event",
}
_REMEDY = "land the events first, and aggregate in a second pipeline whose source is that table"


class Sql(BaseModel, frozen=True, extra="forbid"):
    """Spark SQL over the table `events`."""

    sql: str = Field(description="`SELECT ... FROM events [WHERE ...]`; see each row as one event.")


class Select:
    """A SELECT taken apart, with the user's expressions exactly as written."""

    def __init__(self, text: str) -> None:
        self._text = text.strip().rstrip(";")
        tokens = _tokens(self._text)
        tops = _top_level(tokens)
        kinds = [token.token_type for token in tops]
        if not tops or kinds[0] != TokenType.SELECT or kinds.count(TokenType.FROM) != 1:
            raise ValueError(_SHAPE)
        start_of_from = tops[kinds.index(TokenType.FROM)]
        rest = tops[kinds.index(TokenType.FROM) + 1 :]
        if not rest or rest[0].text.lower() != "events":
            raise ValueError(f"{_SHAPE}: the table is called events")
        after = rest[1:]
        if after and after[0].token_type != TokenType.WHERE:
            raise ValueError(f"{_SHAPE}; '{after[0].text}' does not belong there. Instead, {_REMEDY}")
        if any(token.token_type in {TokenType.DISTINCT, TokenType.UNION} for token in tops[:2]):
            raise ValueError(f"{_SHAPE}; DISTINCT looks at more than one event. Instead, {_REMEDY}")
        clauses = {TokenType.GROUP_BY, TokenType.ORDER_BY, TokenType.LIMIT, TokenType.HAVING, TokenType.UNION}
        clauses |= {TokenType.JOIN, TokenType.LATERAL, TokenType.WINDOW, TokenType.QUALIFY}
        strange = next((token for token in after[1:] if token.token_type in clauses), None)
        if strange is not None:
            raise ValueError(f"{_SHAPE}; '{strange.text}' does not belong there. Instead, {_REMEDY}")
        self.where = self._text[after[0].end + 1 :].strip() if after else None
        self.expressions = self._split(tops[0].end + 1, start_of_from.start, tops)
        for part in [*self.expressions, *([self.where] if self.where else [])]:
            _require_row_local(part)
        self.names = [_name(part) for part in self.expressions]

    def _split(self, first: int, last: int, tops: list[Token]) -> list[str]:
        commas = [each.start for each in tops if each.token_type == TokenType.COMMA and first <= each.start < last]
        edges = [first - 1, *commas, last]
        return [self._text[left + 1 : right].strip() for left, right in itertools.pairwise(edges)]

    def columns(self, have: list[str]) -> list[str] | None:
        """Give the user's columns that come out, of those that go in; None if a star does more than a plain `*`."""
        found: list[str] = []
        for part, name in zip(self.expressions, self.names, strict=True):
            if name is None and part != "*":
                return None
            found += [name] if name else [each for each in have if not each.startswith("_")]
        return found

    @property
    def made(self) -> list[tuple[str, str]]:
        """The expressions that have a name, each with its name, to the letter."""
        named = zip(self.names, self.expressions, strict=True)
        return [(name, _without_alias(part)) for name, part in named if name is not None]


def _tokens(text: str) -> list[Token]:
    try:
        return list(Dialect.get_or_raise("spark").tokenize(text))
    except SqlglotError as error:
        raise ValueError(f"this is no SQL: {str(error).splitlines()[0]}") from None


def _top_level(tokens: list[Token]) -> list[Token]:
    """Leave out what stands in brackets, and what stands between CASE and END."""
    depth, tops = 0, []
    for token in tokens:
        if token.token_type in {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.CASE}:
            depth += 1
        elif token.token_type in {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.END}:
            depth -= 1
        elif depth == 0:
            tops.append(token)
    return tops


def _parsed(expression: str) -> exp.Expression | None:
    try:
        return sqlglot.parse_one(f"SELECT {expression}", dialect="spark").expressions[0]  # type: ignore[no-any-return]
    except (SqlglotError, IndexError):
        return None  # Spark knows more SQL than any parser beside it; Spark decides when the pipeline starts


def _require_row_local(part: str) -> None:
    tree = _parsed(part)
    for kind, reason in _NOT_ROW_LOCAL.items():
        if tree is not None and tree.find(kind) is not None:
            raise ValueError(f"'{part}': {reason}. Instead, {_REMEDY}")


def _name(part: str) -> str | None:
    """Give the name that an expression comes out under; None for a star."""
    tree = _parsed(part)
    if isinstance(tree, exp.Star) or (isinstance(tree, exp.Column) and isinstance(tree.this, exp.Star)):
        return None
    name = tree.alias_or_name if isinstance(tree, exp.Alias | exp.Column) else ""
    if not name:
        raise ValueError(f"'{part}' needs a name: write {part} AS something")
    if name.startswith("_") and not isinstance(tree, exp.Column):
        raise ValueError(f"'{name}': names that begin with an underscore belong to Penstock")
    return name


def _without_alias(part: str) -> str:
    """Cut the alias off the end; what stands before it is kept to the letter."""
    tokens = _tokens(part)
    tops = _top_level(tokens)
    last = tops[-1] if tops else None
    if last is None or last is not tokens[-1] or not isinstance(_parsed(part), exp.Alias):
        return part
    before = tokens[-2]
    end = before.start if before.token_type == TokenType.ALIAS else last.start
    return part[:end].strip()


def mentioned_columns(expression: str) -> set[str]:
    """Give the names of columns that an expression mentions, as far as a parser can tell."""
    tree = _parsed(expression)
    return {column.name for column in tree.find_all(exp.Column)} if tree is not None else set()
