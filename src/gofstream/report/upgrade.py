"""Result files of version 2, read as version 3.

In version 2 a p-value beyond the toys came from a fitted law and was the headline. In version 3 all
p-values count toys. At each width the count is known (no toy is as extreme) and the old p-value
becomes `law_p`. Where strategies or widths were combined it is not, because ranks tie: p becomes
the largest that is possible, one tie for each column, and a note says so.
"""

from __future__ import annotations

from typing import Any

from gofstream.inference.pvalues import PValue, counted_p, z_score
from gofstream.inference.rate import RateTest

Json = dict[str, Any]

NOTE = (
    "this result file was written by an older version, which extrapolated beyond the toys; its "
    "combined p-values are now the largest that its count of toys allows: repeat the test to have "
    "them counted"
)


def upgraded(content: Json) -> Json:
    """Give the content of a result file in the newest version; other versions as they are.

    A damaged file is left as it is, too, for the schema to name what is wrong.
    """
    if content.get("version") != 2:
        return content
    try:
        return _from_2(content)
    except (KeyError, TypeError, ValueError, AttributeError):
        return {**content, "version": 3}


def _from_2(old: Json) -> Json:
    toys, widths = int(old["toys"]), len(old["widths"])
    extrapolated = [bool(old["extrapolated"])]

    def chance(found: Json, ties: int) -> Json:
        if not found["extrapolated"]:
            hits = round(found["p"] * (toys + 1)) - 1
            law_p = None
        else:
            hits, law_p = min(ties, toys + 1) - 1, found["p"] if ties == 1 else None
            extrapolated.append(ties > 1)
        return _plain(counted_p(hits, toys), law_p)

    def statistic(found: Json) -> Json:
        columns = len(found["p"])
        return {
            "p": [chance(each, 1) for each in found["p"]],
            "combined": chance(found["combined"], columns),
            "null": found["null"],
        }

    statistics = {name: statistic(found) for name, found in old["statistics"].items()}
    verdicts = {
        names: chance(found, (names.count(" + ") + 1) * widths)
        for names, found in old["verdicts"].items()
    }
    first = next(iter(verdicts.values()))
    ends = [first["p"], first["low"], first["high"]]
    if old["rate"] is not None:
        rate = RateTest(old["rate"]["expected"], old["rate"]["observed"], old["rate"]["p"])
        ends = [rate.with_shape(end) for end in ends]
    new = {key: value for key, value in old.items() if key != "extrapolated"}
    z = None if ends[0] == 1 else float(z_score(ends[0]))
    new |= {"version": 3, "pvalue": ends[0], "zscore": z, "low": ends[1], "high": ends[2]}
    new |= {"statistics": statistics, "verdicts": verdicts}
    return new | {"caveats": [*old["caveats"], NOTE]} if any(extrapolated) else new


def _plain(found: PValue, law_p: float | None) -> Json:
    return {
        "p": found.p,
        "z": None if found.p == 1 else found.z,
        "low": found.low,
        "high": found.high,
        "hits": found.hits,
        "law_p": law_p,
    }
