"""What is known of a run of the lab, as people read it."""

from typing import Any

WORDS = {
    "running": "running",
    "right": "as it should be",
    "wrong": "not as it should be",
    "failed": "failed",
    "stopped": "stopped",
}
LOOKS = {"running": "warn", "right": "good", "wrong": "bad", "failed": "bad", "stopped": ""}
_COMPARED = {"same": "good", "differs": "bad", "not there yet": "warn"}
_SHORT = 8


def chosen(options: dict[str, Any]) -> str:
    """Write what was chosen for a run."""
    return ", ".join(f"{name} {value}" for name, value in options.items()) or "—"


def podium_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return players of games beside the truth, as rows of a table."""
    return [
        {
            **each,
            "id": f"{each['game_id']} {each['user']}",
            "game": each["game_id"][:_SHORT],
            "look": _COMPARED[each["state"]],
        }
        for each in rows
    ]


def standing_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the best players of a scenario beside the truth, as rows of a table."""
    pairs = (("wins", "true_wins"), ("damage", "true_damage"), ("games", "true_games"))
    found = []
    for each in rows:
        same = all(each[one] == each[other] for one, other in pairs)
        found.append({**each, "state": "same" if same else "differs", "look": _COMPARED["same" if same else "differs"]})
    return found
