"""Running something while a chosen system call fails, or while the process is killed in it.

`strace` does both. A job is a command, or a function that runs in a fork of this process, which is
a hundred times quicker, since nothing is imported anew.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gofstream_studies.chaos.programs import program

#: The calls by which SQLite and we change files or wait for the disk.
WRITES = ("pwrite64", "fdatasync", "fsync", "ftruncate", "unlink", "linkat")
#: Calls that everybody makes: to be watched on named files only.
OTHERS = ("openat", "pread64")
LOCKS = ("fcntl",)

Effect = Literal["KILL", "ENOSPC", "EIO"]
Job = Sequence[str] | Callable[[], int]


@dataclass(frozen=True, slots=True)
class Fault:
    """The ``nth`` call of a kind kills the process, or fails; so do later ones if ``lasting``."""

    call: str
    nth: int
    effect: Effect
    lasting: bool = False

    @property
    def option(self) -> str:
        """The words for `strace`."""
        effect = "signal=KILL" if self.effect == "KILL" else f"error={self.effect}"
        return f"inject={self.call}:{effect}:when={self.nth}{'+' if self.lasting else ''}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a job did: its exit code (−9 if killed), what it said, the calls that were watched."""

    code: int
    out: str
    calls: tuple[str, ...]


def run(
    job: Job, calls: Sequence[str], watched: Sequence[Path] = (), fault: Fault | None = None
) -> Outcome:
    """Run a job under `strace`, with a fault or just to see which calls it makes.

    Parameters
    ----------
    job : a command, or a function that gives an exit code and prints by `say`.
    calls : names of the calls that are watched.
    watched : count only calls on these files; all files if there are none.
    """
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "calls"
        options = ["-f", "-qq", "-o", str(log), "-e", f"trace={','.join(calls)}"]
        options += ["-e", "signal=none"]
        options += [part for path in watched for part in ("-P", str(path))]
        options += ["-e", fault.option] if fault else []
        if callable(job):
            code, out = _forked(job, [strace(), *options])
        else:
            done = subprocess.run(
                [strace(), *options, "--", *job], stdout=subprocess.PIPE, text=True, check=False
            )
            # strace dies by the signal that killed the command.
            code, out = done.returncode, done.stdout
        # A line is "1234 pwrite64(...) = 24"; the end of a call that was interrupted has no name.
        lines = [line.split(maxsplit=1)[1] for line in log.read_text().splitlines()]
    made = [line.split("(")[0] for line in lines if "(" in line and not line.startswith(("<", "+"))]
    return Outcome(code, out, tuple(made))


def run_free(job: Job, kill_after: float | None = None) -> Outcome:
    """Run a job as it is, and kill it after so many seconds, wherever it is then."""
    if callable(job):
        pid, pipe = _fork(job)
        os.kill(pid, signal.SIGCONT)
    else:
        pipe, writing = os.pipe()
        pid = subprocess.Popen(job, stdout=writing).pid
        os.close(writing)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(pid, signal.SIGKILL)
    out = _drain(pipe)
    _, status = os.waitpid(pid, 0)
    return Outcome(os.waitstatus_to_exitcode(status), out, ())


def say(text: str) -> None:
    """Print a line at once, from a job; what has been said survives the process."""
    os.write(1, f"{text}\n".encode())


def _forked(job: Callable[[], int], tracer: list[str]) -> tuple[int, str]:
    pid, pipe = _fork(job)
    process = subprocess.Popen([*tracer, "-p", str(pid)])
    while "TracerPid:\t0\n" in Path(f"/proc/{pid}/status").read_text():
        if process.poll() is not None:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise RuntimeError("strace cannot attach: allow it to trace children of this process")
        time.sleep(0.001)
    os.kill(pid, signal.SIGCONT)
    out = _drain(pipe)
    _, status = os.waitpid(pid, 0)
    process.wait()
    return os.waitstatus_to_exitcode(status), out


def _fork(job: Callable[[], int]) -> tuple[int, int]:
    """Start a job in a process that waits to be continued; give its id and what it prints into."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:  # never leaves this block
        code = 70
        try:
            os.dup2(writing, 1)
            os.close(writing)
            os.kill(os.getpid(), signal.SIGSTOP)
            code = job()
        except BaseException as error:
            say(f"failed {error!r}")
        finally:
            os._exit(code)
    os.close(writing)
    os.waitpid(pid, os.WUNTRACED)
    return pid, reading


def _drain(pipe: int) -> str:
    with os.fdopen(pipe, "rb") as file:
        return file.read().decode()


def strace() -> str:
    """Give the path of strace."""
    return program("strace", ("strace",), "faults are injected by strace")
