"""Where a replay of a range writes: to other targets than the live pipeline, or in place of its rows."""

from pathlib import Path

from pydantic import ValidationError

from penstock.errors import BadInput
from penstock.pipeline.check import problems
from penstock.pipeline.spec import PipelineSpec
from penstock.sinks.sink import SinkModel


def with_other_targets(spec: PipelineSpec, into: dict[str, str], folder: Path) -> PipelineSpec:
    """Return the pipeline with the named sinks alone, each with its other target; without names, as it is."""
    if not into:
        return spec
    strange = sorted(into.keys() - set(spec.sink_names))
    if strange:
        raise BadInput(f"there is no sink '{strange[0]}'; the sinks are: {', '.join(spec.sink_names)}")
    taken = {sink.target(): name for name, sink in zip(spec.sink_names, spec.sinks, strict=True)}
    chosen = []
    for name, sink in zip(spec.sink_names, spec.sinks, strict=True):
        if name in into:
            moved = _moved(sink, name, into[name], folder)
            target = moved.target()
            if target is not None and (owner := taken.get(target)) is not None:
                raise _taken(owner)
            chosen.append(moved)
    changed = spec.model_copy(update={"sinks": chosen})
    wrong = [each.text for each in problems(changed, folder) if each.level == "error" and each.keys[0] == "sinks"]
    if wrong:
        raise BadInput(f"--into: {wrong[0]}")
    return changed


def require_elsewhere(spec: PipelineSpec, changed: PipelineSpec | None) -> None:
    """Raise if a replay would write where the pipeline does, under another name: servers are asked."""
    for moved in changed.sinks if changed is not None else ():
        target = moved.target_there()
        for name, sink in zip(spec.sink_names, spec.sinks, strict=True):
            own = sink.target()
            if own is not None and target is not None and own.kind == target.kind and sink.target_there() == target:
                raise _taken(name)


def _taken(owner: str) -> BadInput:
    return BadInput(f"sink '{owner}' writes there already: name another target, or use --replace")


def _moved(sink: SinkModel, name: str, target: str, folder: Path) -> SinkModel:
    key = target_key(sink)
    given = {**dict(sink), key: folder / target if isinstance(getattr(sink, key), Path) else target, "name": name}
    try:
        return type(sink).model_validate(given)
    except ValidationError:
        raise BadInput(f"--into {name}={target}: that is not a valid {key}") from None


def target_key(sink: SinkModel) -> str:
    """Return the key of the file that a sink's target stands under; raise `BadInput` if it has none."""
    if sink.target_key is None:
        raise BadInput(f"a `{sink.type}` sink has no target to change")
    return sink.target_key


def require_replaceable(sink: SinkModel) -> None:
    """Raise if a sink cannot replace rows that it has written."""
    if not sink.can_replace:
        raise BadInput(
            f"a `{sink.type}` sink cannot replace what it has written",
            fix="Send the range to another target with --into, or leave the sink out of the file",
        )
    if not sink.reserved_columns:
        raise BadInput("a table without `coordinates` does not know which rows belong to the range")
