from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

import numpy as np

class MemmapSource: ...

class AsDtype:
    to_dtype: np.dtype[Any]

class AsStrings: ...

class File:
    _streamers: dict[str, Any] | None

class ColumnRecord:
    field_id: int
    idx: int

class Cluster:
    num_entries: int

class Page:
    num_elements: int

class PageLinks:
    pages: Sequence[Page]

class Node:
    cluster_summaries: Sequence[Cluster]
    column_records: Sequence[ColumnRecord]
    field_id: int
    page_link_list: Sequence[Sequence[PageLinks]]
    name: str
    typename: str | None
    interpretation: object
    num_entries: int
    branches: Sequence[Node]
    fields: Sequence[Node]
    def items(self, *, recursive: bool, full_paths: bool) -> Sequence[tuple[str, Node]]: ...
    def array(self, *, entry_start: int, entry_stop: int, library: str) -> Any: ...

class Directory:
    file: File
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...
    def __getitem__(self, name: str) -> Node: ...
    def classnames(self, *, recursive: bool, cycle: bool) -> dict[str, str]: ...

def open(path: dict[str, None], *, handler: type[MemmapSource]) -> Directory: ...

class WritableTree:
    def extend(self, columns: dict[str, Any]) -> None: ...

class WritableDirectory:
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...
    def mktree(self, name: str, columns: dict[str, Any]) -> WritableTree: ...

def recreate(path: Any) -> WritableDirectory: ...
