"""A command line that cannot be understood: what is wrong with it in one line, and what to type."""

import re
from typing import Any

import typer
from typer.exceptions import TyperException

from penstock.cli.output import say_error
from penstock.config.complaints import in_words
from penstock.wording import nearest

JSON = "--json"
_NO_COMMAND = "No such command "
_TYPED = re.compile(r"""No such command (["'])(.*?)\1""")
_PIPELINE_FILES = (".yaml", ".yml", ".py")
_NO_OPTION = "No such option: "
_NOT_ONE_OF = re.compile(r"'([^']*)' is not one of (.+)")
_CALLED_ELSEWHERE = {
    "create": "Topics are made with: penstock topic create NAME; pipelines with: penstock pipeline new NAME",
    "help": "See: penstock --help",
    "list": "See: penstock topic list, penstock pipeline list, penstock table list",
    "ps": "See: penstock status",
    "run": "Run a pipeline with: penstock pipeline run FILE",
    "start": "Start Kafka with: penstock up; a pipeline with: penstock pipeline start FILE",
    "stop": "Stop Kafka with: penstock down; a pipeline with: penstock pipeline stop NAME",
    "version": "See: penstock --version",
}
"""What people type who know other tools, and the command here."""
_SAME = (
    {"add", "create", "make", "new", "register"},
    {"delete", "discard", "drop", "remove", "rm"},
    {"cat", "describe", "get", "info", "inspect", "show", "status", "view"},
    {"alter", "change", "config", "set", "update"},
    {"list", "ls", "ps"},
    {"follow", "logs", "tail", "watch"},
    {"down", "end", "kill", "stop"},
    {"begin", "start", "up"},
)
"""Synonyms: whoever types one means the one that the group has."""
_SAME_OPTIONS = (
    {"--confirm", "--force", "--no-prompt", "--yes"},
    {"--count", "--limit", "--lines", "--max", "--max-messages", "--number", "--rows"},
    {"--bootstrap", "--bootstrap-server", "--bootstrap-servers", "--broker", "--brokers"},
    {"--from", "--from-beginning", "--offset", "--since"},
    {"--dry-run", "--plan"},
)
_OF_OTHER_TOOLS = {
    "consume --from-beginning": "consume begins with the oldest record without it",
    "group reset --to-datetime": "write --to TIME",
    "group reset --to-earliest": "write --to earliest",
    "group reset --to-latest": "write --to latest",
    "group reset --to-offset": "write --to OFFSET",
    "up --detach": "up leaves Kafka running in the background without it",
    "up -d": "up leaves Kafka running in the background without it",
}
"""Options of other tools, and how to have here what they ask for."""
_METAVARS = {"--bootstrap": "HOST:PORT", "--home": "FOLDER", "--project": "FILE", "--user": "NAME"}


def misused(error: TyperException, command: str, *, as_json: bool) -> Exception:
    """Return what is wrong with a command line, in one line instead of Typer's box; `command` if it names none."""
    message, context = error.format_message().replace("Value error, ", ""), getattr(error, "ctx", None)
    if not message or "\n" in message:
        return error  # a group that was called without a command: its help is printed, or is the message
    path = context.command_path if context is not None else command
    if (found := getattr(error.__cause__, "errors", None)) is not None:  # of pydantic, which Typer asks
        message = message.replace(found()[0]["msg"], in_words(found()[0]))
    if message.startswith("Got unexpected extra argument"):
        message = f"{message.rstrip('.')}; {_what_it_takes(context)}"
    elif context is not None and (typed := _TYPED.match(message)):
        message = _unknown_command(typed[2], context)
    elif message.startswith(_NO_OPTION):
        message = _unknown_option(error, context, path)
    elif choice := _NOT_ONE_OF.search(message):
        close = nearest(choice[1], re.findall("'([^']*)'", choice[2]))
        message = f"{message.rstrip('.')}. Did you mean '{close}'?" if close else message
    elif message.startswith("Missing argument") and context is not None:
        message = f"{message.rstrip('.')}; write: {_usage(context)}"
    see = "" if "See: " in message else f" See: {path} --help"
    ending = "" if message.endswith("?") or not see else "."  # whoever copies a command would copy the dot, too
    text = f"{message[0].lower()}{message[1:].rstrip('.')}{ending}{see}"
    say_error(text, exit_code=error.exit_code, as_json=as_json)
    return typer.Exit(error.exit_code)


def _unknown_command(typed: str, context: Any) -> str:
    """Return which command is meant: by another word for it, by its spelling, or one of those that there are."""
    missing, is_root = f"{_NO_COMMAND}'{typed}'", context.parent is None
    if is_root and typed in _CALLED_ELSEWHERE:
        return f"{missing}. {_CALLED_ELSEWHERE[typed]}"
    if typed.endswith(_PIPELINE_FILES):
        return f"{missing}. Run a pipeline with: penstock pipeline run {typed}"
    there = [name for name, each in context.command.commands.items() if not each.hidden]
    words = next((words for words in _SAME if typed in words), set())
    if same := [name for name in there if name in words]:
        return f"{missing}. Did you mean '{same[0]}'?"
    if close := nearest(typed, there):
        return f"{missing}. Did you mean '{close}'?"
    return missing if is_root else f"{missing}; there are {', '.join(there)}"


def _unknown_option(error: TyperException, context: Any, path: str) -> str:
    """Return which option is meant, by its spelling or by another word for it, or where it stands."""
    typed = str(getattr(error, "option_name", ""))
    missing = f"{_NO_OPTION}{typed}"
    if context is None:
        return missing
    if instead := _OF_OTHER_TOOLS.get(f"{path.removeprefix('penstock ')} {typed}"):
        return f"{missing}: {instead}"
    root = context.find_root()
    if typed == JSON and root is context:
        return f"{JSON} goes after the command, as in: penstock status {JSON}"
    words = next((words for words in _SAME_OPTIONS if typed in words), {typed})
    here = {option for each in context.command.params for option in each.opts}
    if same := sorted(words & here):
        return f"{missing}. Did you mean {same[0]}?"
    for each in root.command.params if root is not context else ():
        if option := next((option for option in each.opts if option in words), None):
            value = f" {_METAVARS[option]}" if option in _METAVARS else ""
            return f"{option} goes before the command, as in: penstock {option}{value}{path.removeprefix('penstock')}"
    if any(each.param_type_name == "argument" and f"--{each.name}" == typed for each in context.command.params):
        return f"{missing}. It is given without an option, as in: {_usage(context)}"
    possible = {each.lstrip("-"): each for each in getattr(error, "possibilities", None) or ()}
    close = nearest(typed.lstrip("-"), possible)
    return f"{missing}. Did you mean {possible[close]}?" if close else missing


def _what_it_takes(context: Any) -> str:
    """Return how to write a superfluous word; for a command that takes only options, which ones it takes."""
    if context is None or any(each.param_type_name == "argument" for each in context.command.params):
        return "put values with spaces in quotes"
    values = [each.opts[0] for each in context.command.params if not each.is_flag]
    return f"name it by an option: {', '.join(values)}" if values else "this command takes none"


def _usage(context: Any) -> str:
    """Write a command with what it takes, as people type it."""
    arguments = [each for each in context.command.params if each.param_type_name == "argument"]
    words = [str(each.name).upper() if each.required else f"[{str(each.name).upper()}]" for each in arguments]
    return " ".join([context.command_path, *words])
