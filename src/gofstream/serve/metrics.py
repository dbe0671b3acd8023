"""How a run stands, for Prometheus."""

from __future__ import annotations

from gofstream.stream.rows import STATES
from gofstream.stream.status import RunStatus

#: Name, kind, and what it is.
_MEANING = {
    "gofstream_store_readable": ("gauge", "Whether the store could be read."),
    "gofstream_batches_total": ("counter", "Batches in the ledger, by state."),
    "gofstream_events_total": ("counter", "Events of all batches."),
    "gofstream_alarms_total": ("counter", "Alarms that rang."),
    "gofstream_alarms_open": ("gauge", "Alarms that nobody acknowledged."),
    "gofstream_u_highest": ("gauge", "Largest u after the last monitored batch."),
    "gofstream_u_boundary": ("gauge", "Boundary beyond which u alarms."),
    "gofstream_last_batch_timestamp_seconds": ("gauge", "When the last batch arrived."),
    "gofstream_inbox_files": ("gauge", "Batches that wait in the inbox."),
    "gofstream_store_bytes": ("gauge", "Bytes of the store: of models, events, the whole file."),
    "gofstream_pages": ("gauge", "Pages that are open."),
}


def exposition(status: RunStatus | None, *, readable: bool, waiting: int | None, pages: int) -> str:
    """Write the metrics as Prometheus reads them; what is not known is left out.

    Parameters
    ----------
    status : how the run stands; None if the store was never read.
    readable : whether the store can be read at the moment.
    waiting : files in the inbox, if there is one.
    pages : open pages.

    Examples
    --------
    >>> print(exposition(None, readable=False, waiting=None, pages=0))
    # HELP gofstream_store_readable Whether the store could be read.
    # TYPE gofstream_store_readable gauge
    gofstream_store_readable 0
    # HELP gofstream_pages Pages that are open.
    # TYPE gofstream_pages gauge
    gofstream_pages 0
    <BLANKLINE>
    """
    values: dict[str, list[tuple[str, float | None]]] = {
        "gofstream_store_readable": [("", int(readable))],
        "gofstream_inbox_files": [("", waiting)],
        "gofstream_pages": [("", pages)],
    }
    if status is not None:
        ledger, storage, top = status.ledger, status.storage, status.highest
        values |= {
            "gofstream_batches_total": [
                (f'{{state="{state}"}}', ledger.states.get(state, 0)) for state in STATES
            ],
            "gofstream_events_total": [("", ledger.events)],
            "gofstream_alarms_total": [("", len(status.alarms))],
            "gofstream_alarms_open": [("", len(status.open_alarms))],
            "gofstream_u_highest": [("", None if top is None else top.u)],
            "gofstream_u_boundary": [("", status.facts.level)],
            "gofstream_last_batch_timestamp_seconds": [("", ledger.arrived)],
            "gofstream_store_bytes": [
                ('{part="models"}', storage.models),
                ('{part="events"}', storage.events),
                ('{part="file"}', storage.file),
            ],
        }
    lines = []
    for name, (kind, meaning) in _MEANING.items():
        known = [(labels, value) for labels, value in values.get(name, []) if value is not None]
        if known:
            lines += [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}"]
            lines += [f"{name}{labels} {value!r}" for labels, value in known]
    return "\n".join(lines) + "\n"
