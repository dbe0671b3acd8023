"""`gofstream watch`: learn from batches as they come, and alarm."""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import click

from gofstream.cli.live import Screen
from gofstream.cli.options import Reading, Running, with_reading, with_running
from gofstream.errors import InputError, StoppedError
from gofstream.execution import thread_workers
from gofstream.files import write_whole
from gofstream.inference.sequential import Boundary, alpha_for
from gofstream.io import Events
from gofstream.ratio.learner import Learner
from gofstream.stream.decode import Decoder
from gofstream.stream.directory import Inbox
from gofstream.stream.monitor import Acknowledged, Monitor
from gofstream.stream.order import Order
from gofstream.stream.pipe import InterruptibleInput, spool
from gofstream.stream.prepare import prepare_stream
from gofstream.stream.rows import Retention
from gofstream.stream.sources import Intake, Lag
from gofstream.stream.streams import calibrate_alarms
from gofstream.stream.watching import Watching

#: Files that are read at a time: one that takes long must not keep the others out.
READERS = 4


@dataclass(frozen=True, slots=True)
class Alarming:
    """When to alarm, and with what it is found out."""

    expected: float
    epoch: int
    window: int
    false_alarm_every: int
    streams: int
    pool: tuple[str, ...]


@click.command(
    epilog="Example: gofstream watch reference.parquet --inbox in --store run.gofs --expected 2000"
)
@click.argument("reference")
@click.option(
    "--inbox",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Folder in which batches appear, one file each; made if it is not there.",
)
@click.option(
    "--store",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="File of the run; if it is there, the run goes on.",
)
@click.option(
    "--expected",
    type=click.FloatRange(min=0, min_open=True),
    required=True,
    help="Events the nominal model predicts for one batch.",
)
@click.option(
    "--false-alarm-every",
    type=click.IntRange(min=0),
    default=10_000,
    show_default=True,
    metavar="BATCHES",
    help="One false alarm in so many batches, at most; 0: no alarms, and no toys.",
)
@click.option("--epoch", type=click.IntRange(min=1), default=100, show_default=True)
@click.option("--window", type=click.IntRange(min=1), default=20, show_default=True)
@click.option(
    "--streams",
    type=click.IntRange(min=40),
    default=1000,
    show_default=True,
    help="Streams of pseudo-experiments for the boundary; half as many set the scale.",
)
@click.option("--pool", multiple=True, help="Further nominal events, for pseudo-experiments.")
@click.option(
    "--keep",
    type=click.Choice(["all", "one", "sat"]),
    default="sat",
    show_default=True,
    help="Which events are stored: with `sat`, none. No command reads stored events yet, so `all` "
    "and `one` are refused.",
)
@click.option("--keep-last", type=click.IntRange(min=1), hidden=True, expose_value=False)
@click.option("--keep-models", is_flag=True, help="Keep all models, as `replay` needs them.")
@click.option(
    "--keep-files", is_flag=True, help="Move files of acknowledged batches to done/ in the inbox."
)
@click.option(
    "--patience",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    help="Seconds to wait for a missing number before it is skipped.",
)
@click.option("--stdin", "from_stdin", is_flag=True, help="Take Arrow frames from standard input.")
@click.option("--once", is_flag=True, help="End when nothing waits.")
@with_running
@with_reading
def watch(
    reference: str,
    inbox: Path,
    store: Path,
    keep: Literal["all", "one", "sat"],
    keep_models: bool,
    keep_files: bool,
    patience: float,
    from_stdin: bool,
    once: bool,
    running: Running,
    reading: Reading,
    **alarming: Any,
) -> None:
    """Learn from batches as they come, and say when they no longer follow REFERENCE.

    Every file that appears in the inbox is a batch. It is learnt, tested, and let go; what was
    learnt is in the store, which `gofstream serve` shows. Ctrl-C ends the run after the batch in
    hand, and the same command goes on with it.
    """
    wanted = Alarming(**alarming)
    if keep != "sat":
        raise InputError(
            f"--keep {keep} would store events that no command reads: the test of a closed run "
            f"with `{keep}` is still to come (`gofstream close`); leave --keep out"
        )
    retention = Retention("sat")
    with running.bar("reading", "rows") as progress:
        pool = wanted.pool
        known = reading.reference((reference,), progress, simulated=pool)
        further = reading.simulated(known, pool, "pool", progress) if pool else None
    learner, boundary = _calibrated(known, further, wanted, store, running)
    decoder = Decoder(
        known.sample.columns,
        reading.tree,
        reading.where,
        memory=learner.settings.memory,
        define=reading.define,
    )
    stop = threading.Event()
    with ExitStack() as stack:
        monitor = stack.enter_context(
            Monitor.open(
                store,
                learner,
                boundary,
                retention,
                epoch=wanted.epoch,
                window=wanted.window,
                keep_models=keep_models,
            )
        )
        # Trying whether files can be opened must not keep those from being read that can.
        openers, readers = ThreadPoolExecutor(READERS), ThreadPoolExecutor(READERS)
        for threads in (openers, readers):
            stack.callback(threads.shutdown, cancel_futures=True)
        source = Inbox(inbox, decoder, keep=keep_files, executor=openers)
        # When nothing more is on its way, there is nothing to wait for.
        order = Order(0.0 if once else patience, monitor.learnt_names.names)
        executor = stack.enter_context(thread_workers(running.threads))
        stack.enter_context(_stopped_by_signals(stop))
        spooled = stack.enter_context(_spooling(inbox, stop)) if from_stdin else None
        screen = stack.enter_context(Screen.on(running, monitor))
        watching = Watching(monitor, Intake(source, order, executor=readers), executor)

        def ended() -> bool:
            return once if spooled is None else spooled.done.is_set()

        def seen(done: Acknowledged, lag: Lag) -> None:
            if running.json:
                click.echo(json.dumps(_line(done, lag)))
            screen.seen(done, lag)

        watching.run(stop, seen, idle=screen.idle, ended=ended)
        if spooled is not None and spooled.problem is not None:
            raise spooled.problem
    if stop.is_set():
        raise StoppedError(
            f"stopped; {monitor.position.number} batches are in {store}, and the same command "
            "goes on from there"
            + "; frames of the input that were read whole are there or in the inbox"
            * from_stdin
        ) from KeyboardInterrupt()


def _calibrated(
    known: Events,
    further: Events | None,
    wanted: Alarming,
    store: Path,
    running: Running,
) -> tuple[Learner, Boundary | None]:
    """Prepare the reference and, unless nothing is to alarm, the boundary."""
    learner, plan = prepare_stream(
        known.sample,
        running.settings,
        wanted.expected,
        running.seed,
        epoch=wanted.epoch,
        window=wanted.window,
        alarms=wanted.false_alarm_every > 0,
        pool=None if further is None else further.sample,
    )
    for note in learner.notes:
        click.echo(f"gofstream: note: {note}", err=True)
    if plan is None:
        return learner, None
    alpha = alpha_for(wanted.epoch, wanted.false_alarm_every)
    folder = store.with_name(store.name + ".alarms")
    with running.workers() as executor, running.bar("streams for the boundary") as progress:
        boundary = calibrate_alarms(
            plan,
            alpha,
            folder,
            executor,
            streams_a=wanted.streams // 2,
            streams_b=wanted.streams,
            progress=progress,
        )
    write_whole(folder / "boundary.json", boundary.to_json())
    return learner, boundary


def _line(done: Acknowledged, lag: Lag) -> dict[str, Any]:
    """Describe a batch for a log that machines read."""
    entry = done.entry
    return {
        "batch": entry.number,
        "name": entry.name,
        "state": entry.state,
        "new": done.new,
        "events": entry.events,
        "note": entry.note,
        "u": None if entry.highest is None else entry.highest.u,
        "alarm": None if done.alarm is None else {"since": done.alarm.since, "u": done.alarm.u},
        "waiting": lag.waiting,
        "oldest": round(lag.oldest, 1),
    }


@contextmanager
def _stopped_by_signals(stop: threading.Event) -> Iterator[None]:
    """Let Ctrl-C and a polite kill end the run between two batches."""
    before = {
        number: signal.signal(number, lambda *_: stop.set())
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Spooling:
    """Standard input on its way into the inbox, in a thread of its own."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.problem: Exception | None = None


@contextmanager
def _spooling(inbox: Path, stop: threading.Event) -> Iterator[_Spooling]:
    state = _Spooling()

    def work() -> None:
        try:
            spool(InterruptibleInput(sys.stdin.fileno(), stop), inbox, stop=stop)
        except (InputError, StoppedError) as error:
            state.problem = None if stop.is_set() else error
        finally:
            state.done.set()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield state
    except BaseException:
        stop.set()
        raise
    finally:
        thread.join()
