"""Where the large arrays live: the only place that knows devices by name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

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
    xp, where = _torch(device)

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


def _torch(device: Device) -> tuple[Any, Any]:
    """Give PyTorch in the words of the array API, and the device."""
    try:
        import torch
    except ImportError as error:
        raise missing_extra("PyTorch", "torch") from error
    import array_api_compat.torch as xp

    if device == "cpu-torch":
        return xp, torch.device("cpu")
    if not torch.cuda.is_available():
        raise GofstreamError(
            f"PyTorch {torch.__version__} sees no CUDA device here; use --device cpu, or install a "
            "build of PyTorch for this machine's GPU"
        )
    return xp, torch.device("cuda")
