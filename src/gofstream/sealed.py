"""Tensors with a description beside them, sealed: how models and summaries are kept.

A safetensors file with one metadata key, `gofstream`: JSON with `about`, itself JSON text, and
`sha256` over that text and every tensor. Equal things have equal bytes. Nothing in it is executed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from gofstream.errors import FormatError

Tensors = Mapping[str, NDArray[Any]]


def to_bytes(tensors: Tensors, about: Mapping[str, Any]) -> bytes:
    """Write tensors and their description, which names its ``format`` and ``version``.

    Examples
    --------
    >>> import numpy as np
    >>> data = to_bytes({"a": np.zeros(2)}, {"format": "mine", "version": 1, "b": 3})
    >>> from_bytes(data, "mine", 1, "thing")[1]["b"]
    3
    """
    whole = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    text = json.dumps(about, sort_keys=True)
    sealed = json.dumps({"about": text, "sha256": _seal(whole, text)}, sort_keys=True)
    # One key only: safetensors writes several in no fixed order.
    return save(whole, {"gofstream": sealed})


def from_bytes(
    data: bytes, form: str, version: int, what: str
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Read what `to_bytes` wrote: the tensors, and the description.

    Parameters
    ----------
    form, version : what it has to be.
    what : what to call it in messages.

    Raises
    ------
    FormatError
        If the bytes are damaged, foreign, or of a newer version.
    """
    try:
        tensors = load(data)
        sealed = json.loads(_metadata(data)["gofstream"])
        text, sha256 = sealed["about"], sealed["sha256"]
        about: dict[str, Any] = json.loads(text)
        found = about["format"], about["version"]
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise FormatError(f"not a readable gofstream {what} ({error!r})") from error
    if found != (form, version):
        raise FormatError(
            f"this is {found[0]!r} version {found[1]!r}, but this gofstream reads {form!r} "
            f"version {version}; use the gofstream that wrote it, or a newer one"
        )
    if sha256 != _seal(tensors, text):
        raise FormatError(f"the {what} is damaged: its SHA-256 does not match; restore a copy")
    return tensors, about


def _metadata(data: bytes) -> dict[str, str]:
    # The file starts with the length of its JSON header; `load` has checked both.
    length = int.from_bytes(data[:8], "little")
    header: dict[str, dict[str, str]] = json.loads(data[8 : 8 + length])
    return header.get("__metadata__", {})


def _seal(tensors: Tensors, text: str) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name}{tensor.shape}{tensor.dtype.str}".encode())
        digest.update(np.ascontiguousarray(tensor).tobytes())
    return digest.hexdigest()
