"""What the array libraries have no common word for."""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
from array_api_compat import array_namespace, device, is_torch_array, to_device
from numpy.typing import NDArray

#: What DLPack calls it.
CPU = 1


class Points(Protocol):
    """Scaled events, of which some can be had at a time: an array, or `ScaledRows`."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Events and features."""
        ...

    @property
    def nbytes(self) -> int:
        """Memory that they take."""
        ...

    def __len__(self) -> int:
        """Count the events."""
        ...

    def __getitem__(self, rows: slice | NDArray[np.int64], /) -> NDArray[np.float64]:
        """Give some of them."""
        ...


def to_numpy(array: Any) -> NDArray[Any]:
    """Give the numbers of any array library as a numpy array."""
    if isinstance(array, np.ndarray):
        return array
    try:
        return np.from_dlpack(array)
    except BufferError:  # it lives on another device
        return np.from_dlpack(to_device(array, "cpu"))


def nbytes(*arrays: Any) -> int:
    """Memory that arrays of real numbers take, of any library."""
    bits = [array_namespace(array).finfo(array.dtype).bits for array in arrays]
    return sum(math.prod(array.shape) * n // 8 for array, n in zip(arrays, bits, strict=True))


def on_cpu(array: Any) -> bool:
    """Tell whether an array is in the memory of this machine, and its work done by this thread."""
    return bool(array.__dlpack_device__()[0] == CPU)


def buffer(shape: tuple[int, int], like: Any, *, by_column: bool = False) -> Any:
    """Make room for a matrix, where an array ``like`` is, that results are put into with ``out=``.

    Its numbers stand row by row, or ``by_column``.

    None if the library cannot: the array API has no word for it, but numpy and PyTorch have. Fresh
    arrays in every chunk of a pass would cost as much as the arithmetic.

    On a CPU the memory is numpy's. PyTorch asks for aligned memory, and where that was given back
    the C library does not find room for as much again (glibc 2.36): the heap grew to three times
    what had been reckoned, more or less from run to run.
    """
    if by_column:
        made = buffer(shape[::-1], like)
        return None if made is None else made.T
    if isinstance(like, np.ndarray):
        return np.empty(shape, dtype=like.dtype)
    if not is_torch_array(like):
        return None
    xp, where = array_namespace(like), device(like)
    if not on_cpu(like):
        return xp.empty(shape, dtype=like.dtype, device=where)
    return xp.asarray(np.empty(shape, dtype=to_numpy(xp.empty(0, dtype=like.dtype)).dtype))


def in_place(name: str, *operands: Any) -> Any:
    """Apply a function of the array API number by number, into its last operand if that can be.

    Examples
    --------
    >>> x = np.array([0.0, 0.0])
    >>> in_place("exp", x) is x, x.tolist()
    (True, [1.0, 1.0])
    """
    function = getattr(array_namespace(operands[-1]), name)
    if isinstance(operands[-1], np.ndarray) or is_torch_array(operands[-1]):
        return function(*operands, out=operands[-1])
    return function(*operands)


def product(a: Any, b: Any, out: Any = None) -> Any:
    """Multiply matrices, into ``out`` if given.

    numpy's `matmul` keeps the interpreter's lock when its result has less than 500 numbers, however
    long it takes; `dot` never does, but cannot write by column.
    """
    if isinstance(a, np.ndarray):
        if out is None or out.flags.c_contiguous:
            return np.dot(a, b, out=out)
        return np.matmul(a, b, out=out)
    return a @ b if out is None else array_namespace(a).matmul(a, b, out=out)
