"""Goodness of fit for batches and streams of data.

A reference says what is expected; data arrive in batches. For each batch a kernel model learns the
log density ratio between batch and reference, batches are combined by averaging what was learnt,
and statistics say how surprising the result is.
"""

from importlib.metadata import version

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
