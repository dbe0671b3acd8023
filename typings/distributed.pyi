from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

class LocalCluster:
    def __init__(
        self,
        *,
        n_workers: int = ...,
        threads_per_worker: int = ...,
        host: str = ...,
        dashboard_address: str | None = ...,
    ) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

class Client:
    def __init__(self, address: Any) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...
    def wait_for_workers(self, n_workers: int) -> None: ...
    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future: ...

class Future:
    def result(self) -> Any: ...
    def cancel(self) -> None: ...
    def add_done_callback(self, fn: Callable[[Future], object]) -> None: ...
