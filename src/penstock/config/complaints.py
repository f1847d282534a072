"""Errors of pydantic, in words for somebody who writes a file and does not know pydantic."""

import re
from typing import Any

from penstock.wording import nearest

_WORDS = {
    "bool_parsing": "it must be true or false",
    "bool_type": "it must be true or false",
    "dict_type": "`key: value` lines are needed here",
    "extra_forbidden": "it is not known",
    "float_parsing": "it must be a number",
    "float_type": "it must be a number",
    "greater_than": "it must be more than {gt}",
    "greater_than_equal": "it must be at least {ge}",
    "int_from_float": "it must be a whole number",
    "int_parsing": "it must be a whole number",
    "int_type": "it must be a whole number",
    "less_than": "it must be less than {lt}",
    "less_than_equal": "it must be at most {le}",
    "list_type": "a list is needed here",
    "missing": "it is required",
    "model_attributes_type": "`key: value` lines are needed here",
    "model_type": "`key: value` lines are needed here",
    "path_type": "it must be a path",
    "string_pattern_mismatch": "it does not match the form {pattern}",
    "string_too_long": "it must not be longer than {max_length}",
    "string_too_short": "it must not be shorter than {min_length}",
    "string_type": "it must be text",
    "too_short": "name at least {min_length} here",
    "union_tag_not_found": "the key {discriminator} is missing",
}


def in_words(problem: Any) -> str:
    """Return what is wrong with a value, which is never repeated; with its input, also which choice was meant."""
    context = problem.get("ctx", {})
    if problem["type"] == "literal_error":
        typed, known = problem.get("input"), re.findall("'([^']*)'", context["expected"])
        close = nearest(typed, known) if isinstance(typed, str) else None
        return f"it must be {context['expected']}" + (f"; did you mean '{close}'?" if close else "")
    if problem["type"] == "union_tag_invalid":
        known = [each.strip(" '") for each in context["expected_tags"].split(",")]
        close = nearest(context["tag"], known)
        meant = f"; did you mean '{close}'?" if close else ""
        what = context["discriminator"].strip("'")
        return f"there is no {what} '{context['tag']}': it is one of {', '.join(known)}{meant}"
    if problem["type"] == "unknown_kind":
        typed, known = problem.get("input"), context["known"].split(", ")
        close = (
            next(filter(None, (nearest(str(each), known) for each in typed)), None) if isinstance(typed, dict) else None
        )
        return str(problem["msg"]) + (f"; did you mean '{close}'?" if close else "")
    if problem["type"] in _WORDS:
        return _WORDS[problem["type"]].format(**context)
    return str(problem["msg"]).removeprefix("Value error, ")
