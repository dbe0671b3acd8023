from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import Self

class ProcessPoolExecutor(Executor):
    def __init__(
        self,
        max_workers: int | None = ...,
        *,
        env: Mapping[str, str] = ...,
        initializer: Callable[[], None] | None = ...,
    ) -> None: ...
    def __enter__(self) -> Self: ...
    # cancel_futures is the base class's; loky does not take it.
    def shutdown(
        self, wait: bool = ..., *, cancel_futures: bool = ..., kill_workers: bool = ...
    ) -> None: ...
