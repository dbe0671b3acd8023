from typing import Any

from fastjet import _swig as _swig

antikt_algorithm: int

class JetDefinition:
    def __init__(self, algorithm: int, radius: float) -> None: ...

class ClusterSequence:
    def __init__(self, data: Any, definition: JetDefinition) -> None: ...
    def inclusive_jets(self, min_pt: float = ...) -> Any: ...
