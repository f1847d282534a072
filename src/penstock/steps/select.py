"""Parses SQL: the SELECT of a row-local step, and conditions of one row. Nothing is executed.

What looks at more than one event is refused. Expressions stay exactly as the user wrote them; a parser only finds
where they begin and end, and which columns they mention.
"""

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Annotated

import sqlglot
from pydantic import AfterValidator
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from penstock.config.problem import Problem
from penstock.record.columns import RESERVED
from penstock.wording import nearest, no_column

_SHAPE = "a step has the shape SELECT ... FROM events [WHERE ...]"
_NOT_ROW_LOCAL = {
    exp.AggFunc: "aggregates look at more than one event",
    exp.Window: "window functions look at more than one event",
    exp.UDTF: "explode and similar functions make several rows of one event",
    exp.Explode: "explode and similar functions make several rows of one event",
    exp.Query: "subqueries look at more than one event",
}
_REMEDY = "land the events first, and aggregate in a second pipeline whose source is that table"
_TYPO = 0.7
_OPEN = {f"Missing {quote}": f"a quote ({quote}) is not closed" for quote in ("'", '"', "`")}
_CLOSED_BY = {
    TokenType.L_PAREN: TokenType.R_PAREN,
    TokenType.L_BRACKET: TokenType.R_BRACKET,
    TokenType.CASE: TokenType.END,
}


def condition(text: str) -> str:
    """Return a row-local condition from its first word to its last, so that more SQL can follow it.

    A comment at its end would hide what follows. Raises `ValueError` for what is not a condition.
    """
    tokens = _tokens(text)
    _top_level(tokens)
    return _expression(text, tokens)


Condition = Annotated[str, AfterValidator(condition)]
"""A row-local condition, fit to stand inside of larger SQL."""


class Select:
    """A SELECT taken apart, with the user's expressions exactly as written."""

    def __init__(self, text: str) -> None:
        self.text = text
        tokens = _tokens(text)
        tops = _top_level(tokens)
        end = next((index for index in tops if tokens[index].token_type == TokenType.FROM), None)
        if tokens and tokens[0].token_type != TokenType.SELECT:
            raise ValueError(f"{_SHAPE}, and this begins with '{tokens[0].text}'{_meant(tokens[:1], 'SELECT')}")
        if end is None:
            raise ValueError(f"{_SHAPE}, and FROM is missing{_meant(tokens, 'FROM')}")
        if tokens[1].token_type in {TokenType.DISTINCT, TokenType.ALL}:
            raise ValueError(f"{_SHAPE}; '{tokens[1].text}' looks at more than one event. Instead, {_REMEDY}")
        table, after = tokens[end + 1 : end + 2], tokens[end + 2 :]
        if [_cut(text, [token]).lower() for token in table] not in (["events"], ["`events`"]):
            raise ValueError(f"{_SHAPE}: the table is called events")
        if after and after[0].token_type != TokenType.WHERE:
            raise ValueError(f"{_SHAPE}; '{after[0].text}' does not belong there{_way_out(after[0])}")
        commas = [index for index in tops if tokens[index].token_type == TokenType.COMMA and index < end]
        parts = [tokens[left + 1 : right] for left, right in itertools.pairwise([0, *commas, end])]
        self.expressions = [_expression(text, part) for part in parts]
        self.where = _expression(text, after[1:]) if after else None
        named = [_named(text, part) for part in parts]
        self.names = [name for name, _ in named]
        # What has a name, each with the expression behind it, to the letter and without the alias.
        self.made = [(name, expression) for name, expression in named if name is not None]
        given = Counter(name.lower() for name, _ in self.made)
        for name, _ in self.made:
            if given[name.lower()] > 1:
                raise ValueError(f"the name '{name}' is given twice")

    def columns(self, have: list[str]) -> list[str] | None:
        """Return the user's columns that come out, of those that go in; None if a star does more than a plain `*`."""
        found: list[str] = []
        for part, name in zip(self.expressions, self.names, strict=True):
            if name is None and part != "*":
                return None
            found += [name] if name else have
        return [name for name in found if not name.startswith("_")]


def _tokens(text: str) -> list[Token]:
    """Take SQL apart, without comments and without semicolons at its end."""
    try:
        tokens = list(Dialect.get_or_raise("spark").tokenize(text))
    except SqlglotError as error:
        # The parser's own words repeat the text and say no more; which quote it missed is in what it was caused by.
        raise ValueError(f"this is not SQL: {_OPEN.get(str(error.__cause__)[:9], 'a comment is not closed')}") from None
    while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens.pop()
    for before, token in itertools.pairwise(tokens):
        # A word after a dot or AS is a name, and the FROM of IS DISTINCT FROM begins no clause.
        if token.text.isidentifier() and before.token_type in {TokenType.DOT, TokenType.ALIAS, TokenType.DISTINCT}:
            token.token_type = TokenType.VAR
    return tokens


def _top_level(tokens: list[Token]) -> list[int]:
    """Return the indexes of what is neither in brackets nor between CASE and END."""
    closing: list[TokenType] = []
    tops = []
    for index, token in enumerate(tokens):
        if token.token_type in _CLOSED_BY:
            closing.append(_CLOSED_BY[token.token_type])
        elif closing and token.token_type == closing[-1]:
            closing.pop()
        elif token.token_type in {TokenType.R_PAREN, TokenType.R_BRACKET}:
            raise ValueError(f"'{token.text}' closes nothing")
        elif not closing:
            tops.append(index)
    if closing:
        raise ValueError("a bracket or a CASE is not closed")
    return tops


def _meant(tokens: list[Token], keyword: str) -> str:
    """Ask whether a word was meant to be a keyword."""
    words = [each.text for each in tokens if each.token_type == TokenType.VAR]
    typed = next((each for each in words if nearest(each.upper(), [keyword], _TYPO)), None)
    return f"; did you mean {keyword} by '{typed}'?" if typed else ""


def _way_out(token: Token) -> str:
    """Say what to do about a word after the table's name: move a clause elsewhere, or correct a typo."""
    if token.token_type in {TokenType.VAR, TokenType.DOT}:
        return _meant([token], "WHERE")
    return f". Instead, {_REMEDY}"


def _cut(text: str, tokens: list[Token]) -> str:
    return text[tokens[0].start : tokens[-1].end + 1]


def _parsed(expression: str) -> exp.Expr | None:
    try:
        return sqlglot.parse_one(f"SELECT {expression}", dialect="spark")
    except (SqlglotError, RecursionError):
        # Spark knows more SQL than any parser beside it, and deeper; Spark decides when the pipeline starts.
        return None


def _expression(text: str, tokens: list[Token]) -> str:
    """Return the text of one row-local expression, exactly as written."""
    if not tokens:
        raise ValueError("an expression is missing: before or after a comma, or after SELECT or WHERE")
    part = _cut(text, tokens)
    query = _parsed(part)
    if query is None:
        return part
    if [key for key, value in query.args.items() if value] != ["expressions"] or len(query.expressions) != 1:
        raise ValueError(f"'{part}': more than one expression does not belong there. Instead, {_REMEDY}")
    for kind, reason in _NOT_ROW_LOCAL.items():
        if query.expressions[0].find(kind) is not None:
            raise ValueError(f"'{part}': {reason}. Instead, {_REMEDY}")
    return part


def _named(text: str, tokens: list[Token]) -> tuple[str | None, str]:
    """Return the name that an expression comes out under, None for a star, and the expression without its alias."""
    part = _cut(text, tokens)
    query = _parsed(part)
    tree = query.expressions[0] if query is not None else None
    name, expression = "", part
    if tokens[:-2] and tokens[-2].token_type == TokenType.ALIAS:
        name, expression = tokens[-1].text, _cut(text, tokens[:-2])
    elif isinstance(tree, exp.Alias):
        name, expression = tree.alias, _cut(text, tokens[:-1])
    elif isinstance(tree, exp.Column | exp.Star) and tree.is_star:
        if isinstance(tree, exp.Column) and [each.name.lower() for each in tree.parts[:-1]] != ["events"]:
            raise ValueError(f"'{part}': name the fields one by one; only * and events.* stand for columns")
        return None, part
    elif isinstance(tree, exp.Column):
        name = tree.name
    if not name and query is None:
        raise ValueError(f"'{part}' is not complete, or needs a name behind it: AS something")
    if not name:
        raise ValueError(f"'{part}' needs a name: write {part} AS something")
    if name.startswith("_") and part.removeprefix("events.") not in RESERVED.names:
        raise ValueError(f"'{name}': names that begin with an underscore belong to Penstock")
    return name, expression


def with_columns_for_stars(expression: str, columns: list[str]) -> str:
    """Spell out a star inside a function, as in `struct(*)`: it means the user's columns, not Penstock's."""
    tokens = _tokens(expression)
    text, end = "", len(expression)
    for index in range(len(tokens) - 1, -1, -1):
        if tokens[index].token_type != TokenType.STAR:
            continue
        of_table = index > 1 and tokens[index - 1].token_type == TokenType.DOT
        first = index - 2 if of_table and tokens[index - 2].text.lower() == "events" else index
        left_out, last = _left_out(tokens, index)
        before, after = tokens[max(first - 1, 0) : first], tokens[last + 1 : last + 2]
        # Anything but brackets and commas around it is a product, or the star of a SELECT.
        if [each.token_type for each in before] in ([TokenType.L_PAREN], [TokenType.COMMA]) and [
            each.token_type for each in after
        ] in ([TokenType.R_PAREN], [TokenType.COMMA]):
            kept = [name for name in columns if name.lower() not in left_out]
            listed = ", ".join("`{}`".format(name.replace("`", "``")) for name in kept)
            text, end = listed + expression[tokens[last].end + 1 : end] + text, tokens[first].start
    return expression[:end] + text


def _left_out(tokens: list[Token], star: int) -> tuple[set[str], int]:
    """Return the columns that a star leaves out by EXCEPT, and the index of the last token that belongs to it."""
    following = tokens[star + 1 :]
    if [each.token_type for each in following[:2]] != [TokenType.EXCEPT, TokenType.L_PAREN]:
        return set(), star
    closing = next(at for at, each in enumerate(following) if each.token_type == TokenType.R_PAREN)
    named = following[2:closing]
    if any(
        each.token_type == TokenType.DOT for each in named
    ):  # fields of structs, which no list of columns leaves out
        return set(), star
    return {each.text.lower() for each in named}, star + 1 + closing


def mentioned_columns(expression: str) -> set[str]:
    """Return the names of columns that an expression mentions, as far as a parser knows; of `s.x` it is `s`."""
    tree = _parsed(expression)
    columns = [each for each in tree.find_all(exp.Column) if not each.is_star] if tree is not None else []
    found = [[part.name for part in column.parts] for column in columns]
    return {parts[1] if parts[0].lower() == "events" and len(parts) > 1 else parts[0] for parts in found}


def unknown_columns(
    texts: list[str], columns: list[str] | None, made: frozenset[str] = frozenset()
) -> Iterator[Problem]:
    """Find SQL that cannot be read, and names that no column has. Names that a SELECT defines exist one step later."""
    for text in texts:
        if _parsed(text) is None:
            yield Problem.warning(f"'{text}' does not look like complete SQL; Spark decides when the pipeline starts")
    if columns is None:
        return
    known = {name.lower() for name in [*columns, *RESERVED.names, "events"]}
    for name in sorted({name for text in texts for name in mentioned_columns(text)}):
        if name.lower() in made - known:
            yield Problem.error(f"'{name}' is made by this SELECT and cannot be used in it: use it in a second step")
        elif name.lower() not in known:
            yield Problem.warning(no_column(name, columns))
