"""Kill writers, fill disks, damage files, and count the batches lost: `make chaos`."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial

from gofstream_studies.chaos.accidents import MONITOR, STORE, every_call, prepare, random_kills
from gofstream_studies.chaos.damage import cut, damage, flip
from gofstream_studies.chaos.hostile import hostile_inbox
from gofstream_studies.chaos.inject import Effect

ERRORS: tuple[Effect, ...] = ("ENOSPC", "EIO")
EFFECTS: tuple[Effect, ...] = ("KILL", *ERRORS)
#: What must not have happened, ever.
BAD = (
    "lost",
    "twice",
    "not clean",
    "not as if nothing had happened",
    "CHANGED SILENTLY",
    "reported without the batch",
    "offered again and taken for new",
    "good batches not learnt",
    "good batches late",
    "the watcher ended",
)


def main() -> int:
    """Run and print one JSON line for each kind of accident; the exit code says if all is well."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "kinds", nargs="*", help="kills, faults, random, damage, monitor, inbox (default: all)"
    )
    parser.add_argument("--batches", type=int, default=6, help="of a run that is interrupted")
    parser.add_argument("--times", type=int, default=1000, help="random kills, and damaged files")
    parser.add_argument("--hostile", type=int, default=200, help="entries of a hostile inbox")
    parser.add_argument("--stride", type=int, default=1, help="take one call in so many")
    parser.add_argument("--journal", choices=["WAL", "DELETE"], default="WAL")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    prepare(options.journal)
    batches, stride = options.batches, options.stride
    times, seed = options.times, options.seed
    jobs: dict[str, list[tuple[str, Callable[[], Counter[str]]]]] = {
        "kills": [
            ("killed in each call", partial(every_call, STORE, batches, "KILL", False, stride))
        ],
        "faults": [
            (
                f"{effect} in each call" + " from then on" * lasting,
                partial(every_call, STORE, batches, effect, lasting, stride),
            )
            for effect in ERRORS
            for lasting in (False, True)
        ],
        "random": [("killed at random", partial(random_kills, STORE, times, 500, seed))],
        "damage": [
            ("bits flipped", partial(damage, flip, times, seed)),
            ("ends cut off", partial(damage, cut, times, seed)),
        ],
        "monitor": [
            *(
                (
                    f"monitor: {effect} in each call",
                    partial(every_call, MONITOR, batches, effect, False, stride),
                )
                for effect in EFFECTS
            ),
            ("monitor: killed at random", partial(random_kills, MONITOR, times, 100, seed, 0.3)),
        ],
        "inbox": [
            (
                "hostile inbox",
                partial(hostile_inbox, max(1, options.hostile // 2), options.hostile, seed),
            )
        ],
    }
    bad = 0
    for kind in options.kinds or jobs:
        for what, job in jobs[kind]:
            counts = job()
            bad += sum(counts[name] for name in BAD)
            shown = {name: counts.get(name, 0) for name in (*counts, *BAD)}
            sys.stdout.write(json.dumps({"what": what, "journal": options.journal} | shown) + "\n")
            sys.stdout.flush()
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
