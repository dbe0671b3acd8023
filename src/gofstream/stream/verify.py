"""Reading a whole store, to see that nothing of it is damaged."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from gofstream.errors import FormatError
from gofstream.stream.reader import Reader
from gofstream.stream.rows import seal

T = TypeVar("T")

#: Findings that a message lists; where a disk fails, there may be thousands.
LISTED = 10


def verify(reader: Reader) -> int:
    """Check every page and every row of a store, and give the number of its batches.

    Raises
    ------
    FormatError
        If something is damaged; it names the batches whose rows are.
    StoppedError
        If the file cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from gofstream.stream.store import Retention, Store
    >>> store = Store.create(Path(tempfile.mkdtemp()) / "run.gofs", {}, Retention("sat"))
    >>> verify(store)
    0
    >>> store.close()
    """
    findings: list[str] = []

    def found(read: Callable[..., T], *arguments: int) -> T | None:
        try:
            return read(*arguments)
        except FormatError as error:
            text = str(error).removeprefix(f"{reader.path} ").removeprefix("is damaged: ")
            findings.append(text.removesuffix("; restore a backup"))
        return None

    with reader.snapshot():
        head = reader.head()
        about = found(reader.about)
        keeps_all = about is not None and about["retention"]["strategy"] == "all"
        chain, models, events = bytes(32), 0, 0
        for batch in range(1, head.batches + 1):
            if (sealed := found(reader.sealed, batch)) is None:
                continue  # what hangs on this entry would only say it again
            chain = seal("chain", chain, sealed.seal)
            learnt = found(reader.models, batch)  # which checks the scores too
            if learnt:
                models += sum(map(len, (*learnt.values(), *reader.scores(batch).values())))
            # Whether those that are missing may be is asked once for all, of `kept`.
            kept = found(reader.stored_events, batch)
            events += len(kept or b"")
            if kept is None and sealed.events is not None and keeps_all:
                findings.append(f"batch {batch}: its events")
        found(reader.kept)
        found(reader.alarms)
        found(reader.checkpoint)
        found(reader.scan)
        if not findings and (chain, models, events) != (
            head.chain,
            head.model_bytes,
            head.event_bytes,
        ):
            findings.append("its head, which tells of other batches than those in the ledger")
        findings += found(reader.pages) or []
    if findings:
        more = f"; and {len(findings) - LISTED} more" if len(findings) > LISTED else ""
        listed = "; ".join(dict.fromkeys(findings[:LISTED]))
        raise FormatError(f"{reader.path} is damaged: {listed}{more}; restore a backup")
    return head.batches
