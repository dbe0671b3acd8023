"""What decides pseudo-experiments, option by option: kept with them, to say later what changed."""

from __future__ import annotations

from gofstream.cli.options import Counting, Reading, Running


def typed_inputs(
    reference: str, running: Running, reading: Reading, counting: Counting
) -> dict[str, str]:
    """Give the options that were given, as they are typed.

    Settings are left out: a null file compares them one by one.
    """
    numbers = counting.expected
    given = {
        "the reference": reference,
        "--pool": " ".join(counting.pool),
        "--columns": ",".join(reading.columns or ()),
        "--weight": reading.weight,
        "--tree": reading.tree,
        "--where": reading.where,
        "--define": "; ".join(f"{name}={formula}" for name, formula in reading.define.items()),
        "--rows": reading.rows,
        "--periodic": ",".join(f"{name}={period:g}" for name, period in reading.periodic.items()),
        "--expected": None if numbers is None else ",".join(f"{number:g}" for number in numbers),
        "--batches": counting.options["batches"],
        "--seed": running.seed,
    }
    return {option: str(value) for option, value in given.items() if value not in (None, "")}
