from collections.abc import Iterator
from os import PathLike
from types import TracebackType
from typing import Any, Self

from numpy import dtype
from numpy.typing import ArrayLike, NDArray

class Dataset:
    dtype: dtype[Any]
    shape: tuple[int, ...] | None
    def __getitem__(self, rows: slice) -> NDArray[Any]: ...

class File:
    def __init__(self, name: str | PathLike[str], mode: str) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...
    def __iter__(self) -> Iterator[str]: ...
    def get(self, name: str) -> Any: ...
    def create_dataset(self, name: str, *, data: ArrayLike) -> Dataset: ...
