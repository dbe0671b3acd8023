"""Names of a package that are imported when first used (PEP 562).

Thus `import gofstream` and `gofstream --help` load neither numpy nor scipy. This module loads
nothing itself: before the command line is ready to take Ctrl-C, every millisecond counts.
"""

from __future__ import annotations

# Type checkers take this for true; `typing` itself is slow to import.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


def lazy_names(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package: it imports the module of a name on first use.

    Parameters
    ----------
    package : the package that has the names.
    modules : for each name the module that defines it.

    Examples
    --------
    >>> get = lazy_names("gofstream", {"cores": "gofstream.execution"})
    >>> get("cores").__module__
    'gofstream.execution'
    """

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(modules[name]), name)

    return get
