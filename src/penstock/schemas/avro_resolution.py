"""Whether Avro can read with one schema what was written with another, by the rules of its specification."""

from typing import Any

from penstock.schemas.avro import AvroSchema

_PROMOTIONS = {
    "int": {"long", "float", "double"},
    "long": {"float", "double"},
    "float": {"double"},
    "string": {"bytes"},
    "bytes": {"string"},
}


def avro_breaks(reader: AvroSchema, writer: AvroSchema) -> list[tuple[str, str]]:
    """Return each field that cannot be read, with the reason; of a very odd schema, none."""
    try:
        return _Resolution(reader.named, writer.named).breaks(reader.parsed, writer.parsed, "")
    except (TypeError, LookupError, AttributeError):  # fastavro reads it, and asks little of it
        return []


class _Resolution:
    """One comparison; records that hold themselves are compared once."""

    def __init__(self, readers: dict[str, Any], writers: dict[str, Any]) -> None:
        self._readers = readers
        self._writers = writers
        self._begun: set[tuple[str, str]] = set()

    def breaks(self, reader: Any, writer: Any, where: str) -> list[tuple[str, str]]:
        """Compare two types."""
        if isinstance(writer, list):
            return [each for one in writer for each in self.breaks(reader, one, where)][:1]
        if isinstance(reader, list):
            if any(not self.breaks(one, writer, where) for one in reader):
                return []
            return [
                (where or "the schema", f"none of its types takes the writer's {_word(_of(writer, self._writers))}")
            ]
        ours, theirs = _of(reader, self._readers), _of(writer, self._writers)
        mine, other = _word(ours), _word(theirs)
        if mine != other:
            if mine in _PROMOTIONS.get(other, ()):
                return []
            return [(where or "the schema", f"{other} was written, and {mine} is read")]
        if mine in {"record", "error"}:
            return self._record(ours, theirs, where)
        if mine == "array":
            return self.breaks(ours["items"], theirs["items"], f"{where}[]")
        if mine == "map":
            return self.breaks(ours["values"], theirs["values"], f"{where}{{}}")
        return _same_kind(ours, theirs, mine, where)

    def _record(self, ours: dict[str, Any], theirs: dict[str, Any], where: str) -> list[tuple[str, str]]:
        pair = (ours["name"], theirs["name"])
        if pair in self._begun:
            return []
        self._begun.add(pair)
        found: list[tuple[str, str]] = []
        names = {ours["name"].rpartition(".")[2], *(each.rpartition(".")[2] for each in ours.get("aliases", ()))}
        if theirs["name"].rpartition(".")[2] not in names:
            found.append((where or "the schema", f"the record is called {ours['name']}, and was {theirs['name']}"))
        written = {field["name"]: field for field in theirs["fields"]}
        for field in ours["fields"]:
            place = f"{where}.{field['name']}" if where else field["name"]
            match = next(
                (written[each] for each in (field["name"], *field.get("aliases", ())) if each in written), None
            )
            if match is not None:
                found += self.breaks(field["type"], match["type"], place)
            elif "default" not in field:
                found.append((place, "was not written, and has no default"))
        return found


def _same_kind(ours: dict[str, Any], theirs: dict[str, Any], word: str, where: str) -> list[tuple[str, str]]:
    if word == "enum":
        unknown = [each for each in theirs["symbols"] if each not in ours["symbols"]]
        if unknown and "default" not in ours:
            return [(where or "the schema", f"the symbols {', '.join(unknown)} are not known to the reader")]
    if word == "fixed" and ours["size"] != theirs["size"]:
        return [(where or "the schema", f"{theirs['size']} bytes were written, and {ours['size']} are read")]
    if "decimal" in {ours.get("logicalType"), theirs.get("logicalType")}:
        shapes = [(each.get("logicalType"), each.get("precision"), each.get("scale", 0)) for each in (ours, theirs)]
        if shapes[0] != shapes[1]:
            return [(where or "the schema", "the decimal has another precision or scale")]
    return []


def _of(kind: Any, named: dict[str, Any]) -> Any:
    if isinstance(kind, str):
        return named.get(kind, {"type": kind})
    if isinstance(kind["type"], dict | list):
        return _of(kind["type"], named)
    return kind


def _word(definition: Any) -> str:
    return str(definition["type"])
