"""JAAS lines for Java clients, quoted so that no user name or password can add an option or a module."""

_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def login_module(module: str, **options: str) -> str:
    """Write one login module with its options."""
    quoted = " ".join(f'{name}="{_escape(value)}"' for name, value in options.items())
    return f"{module} required {quoted};"


def _escape(value: str) -> str:
    return "".join(_ESCAPES.get(character, character) for character in value)
