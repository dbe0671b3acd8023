from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from multiprocessing.process import BaseProcess
from typing import Self

class ProcessPoolExecutor(Executor):
    _processes: dict[int, BaseProcess]

    def __init__(
        self,
        max_workers: int | None = ...,
        *,
        env: Mapping[str, str] = ...,
        initializer: Callable[[], None] | None = ...,
    ) -> None: ...
    def __enter__(self) -> Self: ...
