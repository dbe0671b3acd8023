"""A real Slurm for the tests: Debian's, one controller and one node, on this machine alone."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from gofstream_studies.chaos.programs import program

#: Jobs that may run at a time; the node says that it has as many cores.
CORES = 4

CONFIGURATION = """\
ClusterName=gofstream
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/controller.pid
SlurmdPidFile={folder}/node.pid
# Cores and memory are what this file says, and no control groups are needed.
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={cores} RealMemory=16000 State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


@contextmanager
def slurm(folder: Path) -> Iterator[dict[str, str]]:
    """Start munge, the controller and the node; give the environment in which commands find them.

    Everything they write is in ``folder``; root's rights are needed to start jobs.
    """
    what_for = "these tests submit jobs to a real Slurm"
    munged = program("munge", ("munged",), what_for)
    controller = program("slurm-wlm", ("slurmctld",), what_for)
    node = program("slurm-wlm", ("slurmd",), what_for)
    for name in ("state", "spool"):
        (folder / name).mkdir()
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    host = socket.gethostname().partition(".")[0]
    path = folder / "slurm.conf"
    ports = _free_ports(2)
    path.write_text(
        CONFIGURATION.format(
            host=host, controller=ports[0], node=ports[1], folder=folder, cores=CORES
        )
    )
    environment = {**os.environ, "SLURM_CONF": str(path)}
    names = {"key-file": "key", "socket": "socket", "pid-file": "pid", "seed-file": "seed"}
    files = [f"--{option}={folder}/munge.{ending}" for option, ending in names.items()]
    commands = {
        "munge": [munged, "--force", "--foreground", *files],
        "controller": [controller, "-D"],
        "node": [node, "-D", "-N", host],
    }
    with _programs(commands, environment, folder):
        _wait(lambda: "idle" in _said(["sinfo", "-h", "-o", "%T"], environment), folder)
        yield environment


def jobs(environment: dict[str, str]) -> list[str]:
    """List the numbers of the jobs that run."""
    return _said(["squeue", "-h", "-t", "RUNNING", "-o", "%i"], environment).split()


@contextmanager
def _programs(
    commands: dict[str, Sequence[str]], environment: dict[str, str], folder: Path
) -> Iterator[None]:
    """Keep programs running, their output in files, and end them in the opposite order."""
    running: list[subprocess.Popen[bytes]] = []
    try:
        for name, command in commands.items():
            with (folder / f"{name}.log").open("wb") as log:
                running.append(
                    subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=folder)
                )
            if name == "munge":
                _wait((folder / "munge.socket").exists, folder)
        yield
    finally:
        for process in reversed(running):
            process.terminate()
        for process in reversed(running):
            process.wait(timeout=60)
        # A job that outlived its node would write into a folder that is gone.
        shutil.rmtree(folder / "spool", ignore_errors=True)


def _said(command: Sequence[str], environment: dict[str, str]) -> str:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return done.stdout


def _wait(ready: Callable[[], bool], folder: Path, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > end:
            logs = "\n".join(f"{log.name}:\n{log.read_text()}" for log in folder.glob("*.log"))
            raise TimeoutError(f"Slurm did not start within {seconds:g} s\n{logs}")
        time.sleep(0.1)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports
