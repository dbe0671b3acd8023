from collections.abc import Callable, Mapping
from concurrent.futures import Executor

class ProcessPoolExecutor(Executor):
    def __init__(
        self,
        max_workers: int | None = ...,
        *,
        env: Mapping[str, str] = ...,
        initializer: Callable[[], None] | None = ...,
    ) -> None: ...
