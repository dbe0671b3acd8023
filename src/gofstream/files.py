"""Files that are whole, or not there at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Give a file to write to beside ``path``, which it becomes when all went well.

    Raises
    ------
    OSError
        If it cannot be written; what was at ``path`` is still there, and nothing else.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "a.txt"
    >>> with whole(path) as partial:
    ...     written = partial.write_text("all of it")
    >>> [file.name for file in path.parent.iterdir()]
    ['a.txt']
    """
    # The same folder, so that the renaming cannot fall between two file systems; a name of its
    # own for each process, so that two of them cannot write into one file.
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield partial
        os.replace(partial, path)
    except OSError as error:
        why = error.strerror or error
        raise OSError(
            f"{path} cannot be written ({why}); make room, or give another place"
        ) from error
    finally:
        partial.unlink(missing_ok=True)


def write_whole(path: Path, text: str) -> None:
    """Write a text file that appears when it is whole, and leaves no part when it fails."""
    with whole(path) as partial:
        partial.write_text(text, encoding="utf-8")
