"""The components that a pipeline file names by `type`: the built-in ones, and those that installed packages add.

A package adds one by an entry point whose name is the type and whose object is the model. Packages are looked at when a
file names a type that is not built in, and only the one that offers it is imported.
"""

from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Annotated, Any, Generic, TypeVar, Union, get_args

from pydantic import BaseModel, Field, GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from penstock.config.document import contradiction
from penstock.wording import nearest

Family = TypeVar("Family", bound=BaseModel)


class Components(Generic[Family]):
    """Annotates the union of a family's built-in models and its base; any subclass of the base is accepted.

    Guarantee: a built-in type is never another package's, and a package that cannot be used gives an error of one line.
    """

    def __init__(self, group: str, base: type[Family]) -> None:
        self._group = group
        self._base = base
        self.built_in: dict[str, type[Family]] = {}
        """The models that come with Penstock, by type."""

    def installed(self) -> dict[str, list[EntryPoint]]:
        """Return what installed packages offer, by type, loadable or not."""
        found: dict[str, list[EntryPoint]] = {}
        for each in entry_points(group=self._group):
            found.setdefault(each.name, []).append(each)
        return found

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        models = [each for each in get_args(source) if each is not self._base]
        self.built_in = {str(each.model_fields["type"].default): each for each in models}
        union = handler.generate_schema(Annotated[Union[tuple(models)], Field(discriminator="type")])  # noqa: UP007 - of a list
        return core_schema.with_info_wrap_validator_function(
            self._validated, union, serialization=core_schema.simple_ser_schema("any")
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        made = handler(schema)
        type_of_another = {"type": "string", "not": {"enum": list(self.built_in)}}
        made["oneOf"].append(
            {
                "$comment": "one of an installed package",
                "type": "object",
                "properties": {"type": type_of_another},
                "required": ["type"],
            }
        )
        return made

    def _validated(self, value: Any, built_in: core_schema.ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
        if isinstance(value, self._base):
            return value
        name = value.get("type") if isinstance(value, Mapping) else None
        if not isinstance(name, str) or name in self.built_in:
            return built_in(value)
        return self._model(name).model_validate(value, context=info.context)

    def _model(self, name: str) -> type[Family]:
        """Load the model that an installed package offers under this name."""
        offered = self.installed()
        if name not in offered:
            known = [*self.built_in, *sorted(offered.keys() - self.built_in)]
            close = nearest(name, known)
            raise PydanticCustomError(
                "unknown_type",
                "there is no type '{tag}': it is one of {known}{nearest}",
                {
                    "tag": name,
                    "known": ", ".join(known),
                    "nearest": f"; did you mean '{close}'?" if close else "",
                },
            )
        if len(offered[name]) > 1:
            packages = " and ".join(sorted(_package(each) for each in offered[name]))
            raise contradiction(f"'{name}' is offered by {packages}: uninstall all but one", "type")
        (entry,) = offered[name]
        try:
            model = entry.load()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever the package's own code raises
            raise _broken(entry, f"{type(error).__name__}: {error}") from None
        if not (isinstance(model, type) and issubclass(model, self._base)):
            raise _broken(entry, f"{entry.value} is not a {self._base.__name__}")
        if missing := sorted(getattr(model, "__abstractmethods__", ())):
            raise _broken(entry, f"{entry.value} lacks the method {missing[0]}")
        if model.model_fields["type"].default != name:
            raise _broken(entry, f"the `type` of {entry.value} is not '{name}'")
        return model


def _package(entry: EntryPoint) -> str:
    return f"package {entry.dist.name}" if entry.dist is not None else entry.value


def _broken(entry: EntryPoint, reason: str) -> Exception:
    return contradiction(f"'{entry.name}' of {_package(entry)} cannot be used: {reason}", "type")
