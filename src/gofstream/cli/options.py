"""What commands have in common: how files are read, how work is run, and a file of options."""

from __future__ import annotations

import functools
import os
import re
import shutil
import tomllib
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import click
from rich.console import Console

from gofstream.cli.progress import blocks_bar
from gofstream.errors import GofstreamWarning, InputError, SettingsError, nearest_names
from gofstream.execution import dask_workers, thread_workers
from gofstream.io import Events, read
from gofstream.io.choice import find, look
from gofstream.io.define import Definitions
from gofstream.periods import periods_of
from gofstream.settings import Device, Settings, preset

Command = Callable[..., Any]
Progress = Callable[[int, int], None]

#: `--json`, of the commands that print one thing.
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")

_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_UNITS |= {f"{unit}i": 1024**power for power, unit in enumerate("kMGT", start=1)}


class Names(click.ParamType[tuple[str, ...]]):
    """Names of columns, separated by commas."""

    name = "a,b,…"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, ...]:
        """Split at commas; a list from a file of options is taken as it is."""
        if isinstance(value, str):
            value = [part.strip() for part in value.split(",")]
        names = tuple(map(str, value))
        if not all(names):
            self.fail("give names separated by commas, and no empty one", param, ctx)
        return names


class Periods(click.ParamType[dict[str, float]]):
    """Periodic columns: phi for radians, phi=360 or phi=deg for another period."""

    name = "a,b=360,…"

    def convert(self, value: Any, param: Any, ctx: Any) -> dict[str, float]:
        """Split at commas and equal signs; a list or table from a file is taken as it is."""
        if isinstance(value, Mapping):
            pairs = list(value.items())
        else:
            items = value.split(",") if isinstance(value, str) else map(str, value)
            pairs = [
                (name, period or "rad") for name, _, period in (x.partition("=") for x in items)
            ]
        names = [str(name).strip() for name, _ in pairs]
        if not all(names) or len(set(names)) < len(names):
            self.fail(
                "name each periodic column once, separated by commas: phi,dphi=360", param, ctx
            )
        given = [x.strip() if isinstance(x, str) else x for _, x in pairs]
        try:
            return periods_of(dict(zip(names, given, strict=True)))
        except InputError as error:
            self.fail(str(error), param, ctx)


class Definition(click.ParamType[tuple[str, str]]):
    """A new column: NAME=FORMULA."""

    name = "NAME=FORMULA"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, str]:
        """Split at the first equal sign."""
        name, equals, formula = (part.strip() for part in str(value).partition("="))
        if not (name and equals):
            self.fail("write a new column as NAME=FORMULA, such as pt=hypot(px,py)", param, ctx)
        return name, formula


class Units(click.ParamType[tuple[tuple[str, str], ...]]):
    """Units of columns: pt=GeV,phi=rad."""

    name = "a=GeV,…"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[tuple[str, str], ...]:
        """Split at commas and equal signs; a table from a file of options is taken as it is."""
        if isinstance(value, str):
            value = [part.partition("=")[::2] for part in value.split(",")]
        pairs = [(k.strip(), u.strip()) for k, u in dict(value).items()]
        if not all(name and unit for name, unit in pairs):
            self.fail("write units as pt=GeV,phi=rad", param, ctx)
        return tuple(pairs)


class Numbers(click.ParamType[tuple[float, ...]]):
    """One number, or several separated by commas."""

    name = "n or n,n,…"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[float, ...]:
        """Read numbers; a list from a file of options is taken as it is."""
        parts = value.split(",") if isinstance(value, str) else value
        try:
            return tuple(map(float, parts if isinstance(parts, list | tuple) else [parts]))
        except (TypeError, ValueError):
            self.fail(f"{value!r} is not a number, nor several separated by commas", param, ctx)


class Size(click.ParamType[int]):
    """A number of bytes with a unit."""

    name = "4GB"

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        """Read 4GB, 500MiB or plain bytes."""
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kMGT]?i?)B?", str(value).strip())
        if found is None or found[2] not in _UNITS:
            self.fail(f"{value!r} is not a size; write 4GB, 500MiB, …", param, ctx)
        size = int(float(found[1]) * _UNITS[found[2]])
        if size < 1:
            self.fail("at least one byte is needed", param, ctx)
        return size


class Count(click.ParamType[int]):
    """A number of events, perhaps with a unit."""

    name = "10M"

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        """Read 10M, 200k or a plain number."""
        found = re.fullmatch(r"(\d+(?:\.\d+)?)([kMG]?)", str(value).strip())
        if found is None:
            self.fail(f"{value!r} is not a number of events; write 10M, 200k, …", param, ctx)
        return int(float(found[1]) * _UNITS[found[2]])


@dataclass(frozen=True, slots=True)
class Reading:
    """Which part of the files is looked at, and how."""

    columns: tuple[str, ...] | None
    weight: str | None
    tree: str | None
    where: str | None
    define: Mapping[str, str]
    rows: int | None
    periodic: Mapping[str, float]
    carry: tuple[str, ...]
    seed: int
    memory: int

    def reference(
        self,
        files: tuple[str, ...],
        progress: Progress,
        scratch: Path | None = None,
        *,
        simulated: tuple[str, ...] = (),
    ) -> Events:
        """Read the reference: it may have weights, and too many rows for memory.

        Parameters
        ----------
        files : of the reference.
        progress, scratch : as for `gofstream.io.read`.
        simulated : files of pool and signal. Where one of them has the column of weights, the
            reference may do without; where none has it, the reference lacks it by mistake.
        """
        weight = self.weight
        if simulated and self._has_weight(simulated):
            weight = self._weight_in(files, "reference")
        return self._read(
            files,
            "reference",
            progress,
            self.columns,
            weight=weight,
            rows=self.rows,
            scratch=scratch,
        )

    def simulated(
        self,
        reference: Events,
        files: tuple[str, ...],
        name: str,
        progress: Progress,
        scratch: Path | None = None,
    ) -> Events:
        """Read a pool or a signal: the columns of the reference, all rows, and their weights."""
        columns, weight = reference.sample.columns, self._weight_in(files, name)
        return self._read(files, name, progress, columns, weight=weight, scratch=scratch)

    def data(self, reference: Events, files: tuple[str, ...], progress: Progress) -> Events:
        """Read data: the columns of the reference, all rows. Every observed event counts once."""
        return self._read(files, "data", progress, reference.sample.columns)

    def _has_weight(self, files: tuple[str, ...]) -> bool:
        if self.weight is None:
            return False
        heads = look(find(files), self.tree, Definitions.read(self.define))
        return any(self.weight in head.columns for head in heads)

    def _weight_in(self, files: tuple[str, ...], name: str) -> str | None:
        """Give the column of weights if the files have it, and warn if they do not."""
        if self.weight is None or self._has_weight(files):
            return self.weight
        warnings.warn(
            f"the {name} ({', '.join(files[:3])}) has no column {self.weight!r}: each of its "
            "events counts once",
            GofstreamWarning,
            stacklevel=2,
        )
        return None

    def _read(
        self,
        files: tuple[str, ...],
        name: str,
        progress: Progress,
        columns: tuple[str, ...] | None,
        **more: Any,
    ) -> Events:
        return read(
            files,
            columns=columns,
            tree=self.tree,
            where=self.where,
            define=self.define,
            periodic=self.periodic,
            carry=self.carry,
            memory=self.memory,
            seed=self.seed,
            name=name,
            progress=progress,
            **more,
        )


@contextmanager
def scratch_in(folder: Path) -> Iterator[Path]:
    """Name a place for events that memory cannot hold; what is there at the end is deleted."""
    place = folder / f".events-{os.getpid()}"
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Counting:
    """How many events are expected, in how many batches, and the toys to compare with."""

    expected: tuple[float, ...] | None
    batches: int | None
    pool: tuple[str, ...]
    toys: int

    @property
    def options(self) -> dict[str, Any]:
        """What `plan_test` and `plan_null` ask for: one number, or one for each batch."""
        if self.expected is None or len(self.expected) == 1:
            expected = None if self.expected is None else self.expected[0]
            return {"expected": expected, "batches": self.batches or 1}
        count = len(self.expected)
        if self.batches not in (None, count):
            raise InputError(
                f"--expected has {count} numbers for {self.batches} batches (--batches); give one "
                "number for all batches together, or one for each"
            )
        return {"expected": self.expected, "batches": count}


@dataclass(frozen=True, slots=True)
class Running:
    """Where work is done, and what is shown of it."""

    seed: int
    threads: int | None
    dask: str | None
    settings: Settings
    json: bool
    quiet: bool

    @property
    def console(self) -> Console:
        """Where to talk: beside the JSON, or nowhere."""
        return Console(stderr=self.json, quiet=self.quiet)

    def workers(self) -> AbstractContextManager[Executor]:
        """Start what the user asked for."""
        return dask_workers(self.dask, self.threads) if self.dask else thread_workers(self.threads)

    def bar(self, what: str, unit: str = "blocks") -> AbstractContextManager[Progress]:
        """Show progress, unless nothing is to be shown."""
        if self.quiet:
            return nullcontext(lambda done, total: None)
        return blocks_bar(self.console, what, unit)


def define_option(command: Command) -> Command:
    """Add the option for columns that no file has."""
    return click.option(
        "--define",
        type=Definition(),
        multiple=True,
        callback=_by_name,
        help='A column to compute: "pt=hypot(px, py)"; can be given often.',
    )(command)


def periodic_option(command: Command) -> Command:
    """Add the option for columns that repeat."""
    return click.option(
        "--periodic",
        type=Periods(),
        default=(),
        help="Columns that are angles in radians, or repeat with another period: phi=360.",
    )(command)


def _by_name(
    context: click.Context, param: click.Parameter, pairs: tuple[tuple[str, str], ...]
) -> dict[str, str]:
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        raise click.BadParameter("two columns have one name", context, param)
    return dict(pairs)


def with_reading(command: Command) -> Command:
    """Add the options that say how files are read; the command gets one `Reading`."""
    options = (
        click.option("--columns", type=Names(), help="Columns to test; default: all numbers."),
        click.option(
            "--weight",
            metavar="COLUMN",
            help="Event weights, in the reference and in files of --pool and --signal.",
        ),
        click.option("--tree", metavar="NAME", help="Tree, group or data set inside the files."),
        click.option("--where", metavar="CONDITION", help='Events to keep: "mll > 60 & pt2 > 20".'),
        define_option,
        click.option(
            "--rows", type=click.IntRange(min=1), help="Reference rows to keep, at random."
        ),
        periodic_option,
        click.option("--carry", type=Names(), default=(), help="Columns to show, not to test."),
    )

    @functools.wraps(command)
    def wrapped(*args: Any, running: Running, **values: Any) -> Any:
        chosen = {name: values.pop(name) for name in Reading.__dataclass_fields__ if name in values}
        reading = Reading(**chosen, seed=running.seed, memory=running.settings.memory)
        return command(*args, running=running, reading=reading, **values)

    return _with(options, wrapped)


def with_counting(command: Command) -> Command:
    """Add the options that say what is expected; the command gets one `Counting`."""
    options = (
        click.option(
            "--expected",
            type=Numbers(),
            help="Events the nominal model predicts: in all, or for each batch.",
        ),
        click.option(
            "--batches",
            type=click.IntRange(min=1),
            help="Batches to split the data into; default: one, or one for each number expected.",
        ),
        click.option(
            "--pool", multiple=True, help="Further nominal events, for pseudo-experiments."
        ),
        click.option(
            "--toys",
            type=click.IntRange(min=10),
            default=400,
            show_default=True,
            help="Pseudo-experiments.",
        ),
    )

    @functools.wraps(command)
    def wrapped(*args: Any, **values: Any) -> Any:
        chosen = {name: values.pop(name) for name in Counting.__dataclass_fields__}
        return command(*args, counting=Counting(**chosen), **values)

    return _with(options, wrapped)


def with_running(command: Command) -> Command:
    """Add the options that say where work is done, and with what settings."""
    options = (
        click.option(
            "--threads",
            type=click.IntRange(min=1),
            help="Or workers that --dask starts; default: as many as cores.",
        ),
        click.option(
            "--dask", metavar="WHERE", help="A scheduler's address, 'local', 'slurm', 'htcondor'."
        ),
    )
    return with_settings(_with(options, command))


def with_settings(command: Command) -> Command:
    """Add the options that say with what settings; the command gets one `Running`."""
    options = (
        click.option(
            "--config",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            is_eager=True,
            expose_value=False,
            callback=_take_config,
            help="TOML file of options; [settings] holds settings. Flags go before it. Options of "
            "other commands are left to them.",
        ),
        click.option("--preset", "base", help="Settings of the paper: expo1d, dimuon5d, cmsl1."),
        click.option(
            "--set",
            "changes",
            multiple=True,
            metavar="KEY=VALUE",
            help="A setting, as in TOML: --set widths=[0.3,1.0]",
        ),
        click.option("--memory", type=Size(), help="Budget; default: that of the settings, 4 GiB."),
        click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True),
        click.option("--json", is_flag=True, help="Print the result as JSON."),
        click.option("--quiet", is_flag=True, help="Print errors only."),
    )

    @functools.wraps(command)
    def wrapped(
        *args: Any,
        base: str | None,
        changes: tuple[str, ...],
        memory: int | None,
        device: str | None = None,
        **values: Any,
    ) -> Any:
        from_file = click.get_current_context().meta.get("gofstream.settings", {})
        start = preset(base).settings if base else Settings()
        flags = {"memory": memory, "device": device}
        given = {name: value for name, value in flags.items() if value is not None}
        settings = start.changed(**(from_file | _changes(changes) | given))
        shared = {name: values.pop(name) for name in ("seed", "json", "quiet")}
        where = {name: values.pop(name, None) for name in ("threads", "dask")}
        return command(*args, running=Running(settings=settings, **shared, **where), **values)

    return _with(options, wrapped)


def with_device(command: Command) -> Command:
    """Add the option of a device, to commands that `with_settings` and can use any."""
    return click.option(
        "--device",
        type=click.Choice(get_args(Device)),
        help="Where products are made; default: that of the settings, cpu.",
    )(command)


def _with(options: tuple[Callable[[Command], Command], ...], command: Command) -> Command:
    for option in reversed(options):
        command = option(command)
    return command


def _changes(given: tuple[str, ...]) -> dict[str, Any]:
    """Read settings from the command line, each as a line of TOML; bare words are text."""
    found: dict[str, Any] = {}
    for item in given:
        key, equals, value = item.partition("=")
        if not equals:
            raise SettingsError(f"--set {item!r}: write a setting as KEY=VALUE")
        try:
            found[key.strip()] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            found[key.strip()] = value.strip()
    return found


def _options(command: click.Command) -> dict[str, click.Option]:
    """Give the options that a file may set, by name."""
    return {
        parameter.opts[-1].lstrip("-"): parameter
        for parameter in command.params
        if isinstance(parameter, click.Option) and parameter.name != "config"
    }


def _options_elsewhere(context: click.Context) -> set[str]:
    """Name the options of all commands that take a file: those of a study share one."""
    group = context.find_root().command
    if not isinstance(group, click.Group):
        return set()
    commands = [group.get_command(context, name) for name in group.list_commands(context)]
    return {
        option
        for command in commands
        if command is not None and any(each.name == "config" for each in command.params)
        for option in _options(command)
    }


def _take_config(context: click.Context, _: click.Parameter, path: Path | None) -> None:
    """Take options from a file, as if they were defaults."""
    if path is None:
        return
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as TOML: {error}") from error
    settings = content.pop("settings", {})
    if not isinstance(settings, dict):
        raise InputError(f"{path}: settings must be a table, as in [settings]")
    known = _options(context.command)
    defaults = {}
    for key, value in content.items():
        if key in known:
            defaults[known[key].name] = value
        elif key not in _options_elsewhere(context):
            raise InputError(f"{path}: unknown option {key!r}; {nearest_names(key, known)}")
    context.default_map = {**(context.default_map or {}), **defaults}
    context.meta["gofstream.settings"] = settings
