from collections.abc import Mapping
from concurrent.futures import Executor

class ProcessPoolExecutor(Executor):
    def __init__(self, max_workers: int | None = ..., *, env: Mapping[str, str] = ...) -> None: ...
