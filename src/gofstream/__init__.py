"""Goodness of fit for batches and streams of data.

A reference says what is expected; data arrive in batches. For each batch a kernel model learns the
log density ratio between batch and reference, batches are combined by averaging what was learnt,
and statistics say how surprising the result is.
"""

# Type checkers take this for true, and `import typing` would be the slowest line of this module.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from gofstream.errors import GofstreamError, GofstreamWarning
    from gofstream.execution import dask_workers, process_workers, thread_workers
    from gofstream.inference.calibrate import Calibration, calibrate
    from gofstream.inference.null import NullTable
    from gofstream.inference.result import TestResult
    from gofstream.inference.study import PowerStudy, power_study
    from gofstream.nplm import nplm_test
    from gofstream.ratio.learner import Learner, Learnt
    from gofstream.ratio.model import Aggregate, LogRatio, LogRatios, RunningRatio
    from gofstream.sample import Sample
    from gofstream.settings import Preset, Settings, preset
    from gofstream.statistics import STATISTICS
    from gofstream.toys.permutation import PermutationPlan
    from gofstream.toys.plan import ReferencePlan
    from gofstream.toys.sources import Injected, Pool, Simulator
    from gofstream.version import __version__

__all__ = [
    "STATISTICS",
    "Aggregate",
    "Calibration",
    "GofstreamError",
    "GofstreamWarning",
    "Injected",
    "Learner",
    "Learnt",
    "LogRatio",
    "LogRatios",
    "NullTable",
    "PermutationPlan",
    "Pool",
    "PowerStudy",
    "Preset",
    "ReferencePlan",
    "RunningRatio",
    "Sample",
    "Settings",
    "Simulator",
    "TestResult",
    "__version__",
    "calibrate",
    "dask_workers",
    "nplm_test",
    "power_study",
    "preset",
    "process_workers",
    "thread_workers",
]

if not TYPE_CHECKING:
    from gofstream.lazy import lazy_names

    _DEFINED_IN = {
        "errors": ("GofstreamError", "GofstreamWarning"),
        "execution": ("dask_workers", "process_workers", "thread_workers"),
        "inference.calibrate": ("Calibration", "calibrate"),
        "inference.null": ("NullTable",),
        "inference.result": ("TestResult",),
        "inference.study": ("PowerStudy", "power_study"),
        "nplm": ("nplm_test",),
        "ratio.learner": ("Learner", "Learnt"),
        "ratio.model": ("Aggregate", "LogRatio", "LogRatios", "RunningRatio"),
        "sample": ("Sample",),
        "settings": ("Preset", "Settings", "preset"),
        "statistics": ("STATISTICS",),
        "toys.permutation": ("PermutationPlan",),
        "toys.plan": ("ReferencePlan",),
        "toys.sources": ("Injected", "Pool", "Simulator"),
        "version": ("__version__",),
    }
    __getattr__ = lazy_names(
        __name__,
        {name: f"gofstream.{part}" for part, names in _DEFINED_IN.items() for name in names},
    )


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
