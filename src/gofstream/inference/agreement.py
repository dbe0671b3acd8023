"""Whether toys in a file were made with the inputs of now; if not, which input changed.

A description (`about` of a plan) holds what the user chose and what follows from it: centres follow
from reference, settings and seed, say. What is told is the choice, not its consequences.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from gofstream.errors import short
from gofstream.settings import Settings

About = Mapping[str, Any]

#: What the user typed, in the words of whoever asked: it explains a difference and makes none.
INPUTS = "inputs"
NO_INPUTS: Mapping[str, str] = MappingProxyType({})
#: Compared only where both have it: files from before do not.
OPTIONAL = ("first_toy", "split_from")


def described(inputs: Mapping[str, str]) -> dict[str, Any]:
    """Make the part of a description that holds what was typed, by option."""
    return {INPUTS: dict(inputs)} if inputs else {}


def differences(stored: About, present: About) -> list[str]:
    """Say what was chosen differently, in the user's words; nothing if the numbers are the same.

    Parameters
    ----------
    stored, present : descriptions of the toys in a file, and of those that are wanted.

    Examples
    --------
    >>> differences({"seed": 1, "centres": "ab"}, {"seed": 2, "centres": "cd"})
    ['the seed (`rng`, --seed) is another']
    >>> differences({"settings": {}}, {"settings": {"shrink": 0.25}})
    []
    """
    changed = [key for key in present if _differs(key, stored, present)]
    if not changed:
        return []
    typed = list(_typed(stored.get(INPUTS, {}), present.get(INPUTS, {})))
    # Settings are always told one by one: what was typed may be a preset.
    found = typed + list(_settings(stored.get("settings", {}), present.get("settings", {})))
    return list(dict.fromkeys(found or _chosen(stored, present, set(changed))))


def _differs(key: str, stored: About, present: About) -> bool:
    if key == INPUTS or (key in OPTIONAL and key not in stored):
        return False
    if key == "settings":
        return any(_settings(stored.get(key, {}), present[key]))
    return key not in stored or stored[key] != present[key]


def _settings(stored: About, present: About) -> Iterator[str]:
    """Compare settings one by one; one that a file does not know had its default."""
    for name in sorted({*stored, *present}):
        if name not in Settings.model_fields:
            yield f"setting {name!r} is one that this gofstream does not know"
            continue
        default = Settings.model_fields[name].get_default()
        default = list(default) if isinstance(default, tuple) else default
        before, now = stored.get(name, default), present.get(name, default)
        if before != now:
            yield f"setting {name!r} was {_value(before)}, is {_value(now)}"


def _value(setting: object) -> str:
    return "not given" if setting is None else repr(setting)


def _typed(stored: Mapping[str, str], present: Mapping[str, str]) -> Iterator[str]:
    """Compare what was typed, if both know it."""
    for name in dict.fromkeys([*stored, *present]) if stored and present else ():
        before, now = stored.get(name), present.get(name)
        if before != now:
            yield f"{name} {_past(before)}, {_now(now)}"


def _past(value: str | None) -> str:
    return "was not given" if value is None else f"was {short(value)!r}"


def _now(value: str | None) -> str:
    return "is not given" if value is None else f"is {short(value)!r}"


def _chosen(stored: About, present: About, changed: set[str]) -> list[str]:
    """Name the choices behind a difference; what follows from them only if there are none."""
    # The part of a reference that is left when a pool was set aside depends on the seed, and the
    # name of that pool on the reference; permuted labels are those of reference and data together.
    split = stored.get("split_from"), present.get("split_from")
    if None not in split and split[0] != split[1]:
        changed = changed - {"source"}
    elif split != (None, None) or "data" in changed:
        changed = changed - {"reference", "split_from"}
    found = []
    if changed & {"reference", "split_from"}:
        found.append("the reference has other rows, columns or weights")
    if "data" in changed:
        found.append("the data are others, and permuted labels belong to one set of data")
    if "source" in changed:
        found.append(
            f"pseudo-experiments came from {stored.get('source')}, come from {present['source']}"
        )
    if "shape_only" in changed:
        found.append("the expected number of events (`expected`, --expected) was given only once")
    elif "expected" in changed:
        sizes = _numbers(stored.get("expected", ())), _numbers(present["expected"])
        why = " (events in the data, where only the shape is tested)"
        found.append(
            f"the expected events of each batch were {sizes[0]}, are {sizes[1]}"
            + (why if present.get("shape_only") else "")
        )
    if "window" in changed:
        found.append(f"window was {stored.get('window')} batches, is {present['window']}")
    if "stream" in changed:
        found.append(f"these are toys of {stored.get('stream')!r}, not of {present['stream']!r}")
    if not found and "seed" in changed:
        found.append("the seed (`rng`, --seed) is another")
    if not found and changed == {"first_toy"}:
        found.append(
            f"{present.get('source', 'the simulator')} gives other events for the same seed: its "
            "code, or a file that it reads, has changed"
        )
    others = ", ".join(sorted(changed))
    return found or [f"{others}: chosen anew, by another version of gofstream or NumPy"]


def _numbers(values: Sequence[float]) -> str:
    return short(", ".join(f"{value:g}" for value in values))
