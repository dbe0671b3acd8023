"""Where the large arrays live: the only place that knows devices by name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import array_api_compat.numpy as numpy_api

from gofstream.errors import GofstreamError, missing_extra
from gofstream.ratio.features import Features
from gofstream.settings import Device


def place(features: Features, device: Device) -> Features:
    """Give the same features on a device, where the solver then works.

    Raises
    ------
    GofstreamError
        If PyTorch is not installed, or sees no such device.

    Examples
    --------
    >>> import numpy as np
    >>> from gofstream.ratio.features import prepare
    >>> x = np.random.default_rng(1).exponential(size=(5000, 1))
    >>> features = prepare(x, x[:100], 0.7, penalty=1e-6, expected=500)
    >>> place(features, "cpu") is features
    True
    """
    if device == "cpu":
        return features
    xp, where = namespace(device)

    def moved(array: Any) -> Any:
        return None if array is None else xp.asarray(array, device=where)

    made = features.made
    if made is not None:
        # The points stay: a chunk of them at a time is sent over, and there may be more than fit.
        made = replace(made, columns=moved(made.columns))
    return replace(
        features,
        psi=moved(features.psi),
        made=made,
        share=moved(features.share),
        to_kernel=moved(features.to_kernel),
        s=moved(features.s),
    )


def namespace(device: Device) -> tuple[Any, Any]:
    """Give the array library in the words of the array API, and the device as it is called there.

    Raises
    ------
    GofstreamError
        If PyTorch is not installed, or sees no such device.
    """
    if device == "cpu":
        return numpy_api, "cpu"
    try:
        import torch
    except ImportError as error:
        raise missing_extra("PyTorch", "torch") from error
    import array_api_compat.torch as torch_api

    if device == "cpu-torch":
        return torch_api, torch.device("cpu")
    if not torch.cuda.is_available():
        raise GofstreamError(
            f"PyTorch {torch.__version__} sees no CUDA device here; use --device cpu, or install a "
            "build of PyTorch for this machine's GPU"
        )
    return torch_api, torch.device("cuda")


def describe(device: Device) -> dict[str, str]:
    """Tell the name of a device, and the versions of what drives it."""
    _, where = namespace(device)
    if device == "cpu":
        return {"name": "numpy"}
    import torch

    known = {"torch": torch.__version__}
    if device == "cpu-torch":
        return known | {"name": f"PyTorch on the CPU, {torch.get_num_threads()} threads"}
    return known | {"name": torch.cuda.get_device_name(where), "cuda": str(torch.version.cuda)}


def device_peak(device: Device) -> int:
    """Bytes of its own memory that a device held at most, in this process; 0 if it has none."""
    if device != "cuda":
        return 0
    import torch

    return int(torch.cuda.max_memory_allocated())
