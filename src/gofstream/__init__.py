"""Goodness of fit for batches and streams of data.

A reference says what is expected; data arrive in batches. For each batch a kernel model learns the
log density ratio between batch and reference, batches are combined by averaging what was learnt,
and statistics say how surprising the result is.
"""

from importlib.metadata import version

from gofstream.errors import GofstreamError, GofstreamWarning
from gofstream.execution import thread_workers
from gofstream.inference.calibrate import Calibration, calibrate
from gofstream.inference.null import NullTable
from gofstream.inference.result import TestResult
from gofstream.ratio.learner import Learner, Learnt
from gofstream.ratio.model import Aggregate, LogRatio, LogRatios, RunningRatio
from gofstream.sample import Sample
from gofstream.settings import Preset, Settings, preset
from gofstream.statistics import STATISTICS
from gofstream.toys.farm import Plan
from gofstream.toys.sources import Injected, Pool, Simulator

__version__ = version("gofstream")

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
    "Plan",
    "Pool",
    "Preset",
    "RunningRatio",
    "Sample",
    "Settings",
    "Simulator",
    "TestResult",
    "__version__",
    "calibrate",
    "preset",
    "thread_workers",
]
