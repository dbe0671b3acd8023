"""Whitened features of the reference: made once, shared by every fit (METHOD §7).

With centres c_1..c_r and K_cc = L Lᵀ, φ(x) = L⁻¹ k(x, c) turns the penalty aᵀK_cc a into bᵀb. With
H0 = ½ N(R) Σ_R v φφᵀ + λN = U Uᵀ, the Hessian of J at f = 0 for data that follow the reference,
ψ(x) = U⁻¹ φ(x) turns that Hessian into the identity. A fit therefore works with f = ψ(x)·z and is
well conditioned from the start. In these coordinates the penalty is λN zᵀS z with S = U⁻¹U⁻ᵀ, and
the curvature of the reference term is (I - λN S)/2: no r × r matrix but S is needed.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from gofstream.errors import refuse_beyond
from gofstream.ratio.arrays import to_numpy
from gofstream.ratio.centres import REACH, Centres, reduce_centres
from gofstream.ratio.kernel import gaussian
from gofstream.ratio.linalg import cholesky

Floats = NDArray[np.float64]

#: A chunk of reference rows takes at most this many bytes, and f on it this many numbers, so that
#: both products of a pass and the sigmoid between them find it in cache; nor has it more rows than
#: this. Shorter ones would make so many calls that threads wait for the interpreter's lock.
CHUNK_BYTES, CHUNK_VALUES, CHUNK_ROWS = 8 * 1024**2, 1024 * 1024, 64 * 1024
#: Rows whose sum may be taken in the working precision: float32 would lose digits of t over more.
RUN = 256
#: Rows taken at a time while features are made: long enough for the triangular solver to be fast.
SLAB = 4096
#: Numbers made at a time for the rows of the data.
DATA_VALUES = 256 * 1024
#: A shelf of data rows is at most this many times as large as what stands on it.
PADDING = 1.25
#: Columns of a triangular matrix that a product takes at a time.
PANEL = 64


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """One width, one reference, one set of centres: all that a block of fits shares.

    Attributes
    ----------
    psi : (N_R, r) whitened features of the reference, in the working precision.
    share : (N_R,) normalised event weights, or None when all are equal.
    mean : (r,) Σ_R share ψ.
    to_kernel : (r, r) upper triangular; a = to_kernel @ z gives the coefficients of the kernels.
    s : (r, r) the matrix S of the penalty.
    expected : N(R) of the nominal batch the whitening was made for.
    penalty_n : λN of that batch.
    """

    width: float
    penalty: float
    centres: Floats
    psi: Any
    share: Any
    mean: Floats
    to_kernel: Any
    s: Any
    expected: float
    penalty_n: float

    @property
    def rank(self) -> int:
        """Number of features r."""
        return int(self.psi.shape[1])

    @property
    def nbytes(self) -> int:
        """Memory the features take."""
        return int(self.psi.nbytes + self.to_kernel.nbytes + self.s.nbytes)

    @property
    def n_reference(self) -> int:
        """Number of rows of the reference."""
        return int(self.psi.shape[0])

    def chunks(self, columns: int) -> Iterator[tuple[Any, Any]]:
        """Yield (ψ, share) in row chunks that stay in cache while ``columns`` fits use them.

        This is the only way the solver reads the reference, so that a later way of making the rows
        (recomputed, or read from a file) need only yield the same chunks.
        """
        rows = min(CHUNK_ROWS, CHUNK_BYTES // (4 * self.rank), CHUNK_VALUES // columns)
        rows = max(1, rows // RUN) * RUN
        for start in range(0, self.n_reference, rows):
            part = slice(start, min(start + rows, self.n_reference))
            yield self.psi[part, :], None if self.share is None else self.share[part]

    def data_rows(
        self, batches: Sequence[Floats], *, whiten: bool
    ) -> tuple[list[Any], NDArray[np.int64]]:
        """Shelves of rows of the batches for the solver, and how many events no centre can see.

        A shelf (batches, rows, r) holds consecutive batches of similar size, so that one call does
        for all of them; rows beyond the last event of a batch are zero. Rows are ψ(x) in the
        working precision, or raw kernel values in double precision. They are made slab by slab,
        over all batches together: large temporaries would cost more than the arithmetic, and so
        would many small calls.
        """
        xp, where = array_namespace(self.psi), device(self.psi)
        centres = xp.asarray(self.centres, device=where)
        dtype = self.psi.dtype if whiten else centres.dtype
        sizes = [len(batch) for batch in batches]
        shelves, places = [], []
        for count, rows in shelve(sizes):
            shelves.append(xp.zeros((count, rows, self.rank), dtype=dtype, device=where))
            places += [shelves[-1][k, :, :] for k in range(count)]
        x = np.concatenate(batches)
        far = np.zeros(len(x), dtype=bool)
        begins = np.cumsum([0, *sizes]).tolist()
        slab = max(256, DATA_VALUES // self.rank)
        for start in range(0, len(x), slab):
            stop = min(start + slab, len(x))
            kernel = gaussian(xp.asarray(x[start:stop], device=where), centres, self.width)
            far[start:stop] = to_numpy(xp.max(kernel, axis=1) < math.exp(-(REACH**2) / 2))
            made = times_upper(kernel, self.to_kernel, dtype) if whiten else kernel
            for k in range(bisect_right(begins, start) - 1, bisect_left(begins, stop)):
                i, j = max(start, begins[k]), min(stop, begins[k + 1])
                places[k][i - begins[k] : j - begins[k], :] = made[i - start : j - start, :]
        missed = np.array([np.count_nonzero(far[i:j]) for i, j in itertools.pairwise(begins)])
        return shelves, missed

    def coefficients(self, z: Floats) -> Floats:
        """Coefficients a of the kernels for whitened coefficients z."""
        return np.asarray(self.to_kernel @ z)

    def log_ratio(self, x: Floats, z: Floats) -> Floats:
        """Evaluate f at any events, one column per column of z."""
        return np.asarray(gaussian(x, self.centres, self.width) @ self.coefficients(z))

    def log_ratio_reference(self, z: Floats) -> Floats:
        """Evaluate f on the reference: (N_R,) or (N_R, T)."""
        return np.asarray(self.psi @ z.astype(self.psi.dtype), dtype=np.float64)


def prepare_bytes(n_reference: int, rank: int, n_candidates: int, itemsize: int) -> int:
    """Peak memory of `prepare`: stored features, kernel of the candidates, r × r matrices."""
    slab = min(SLAB, n_reference) * (rank * (8 + 8 + itemsize))
    return n_reference * rank * itemsize + max(2 * 8 * n_candidates**2, 6 * 8 * rank**2 + slab)


def prepare(
    reference: Floats,
    candidates: Floats,
    width: float,
    *,
    penalty: float,
    expected: float,
    share: Floats | None = None,
    precision: str = "float32",
    memory: int = 4 * 1024**3,
) -> Features:
    """Reduce the candidate centres and make the whitened features of the reference.

    Parameters
    ----------
    reference : (N_R, D) scaled reference.
    candidates : (M, D) candidate centres.
    width : σ.
    penalty : λ.
    expected : N(R) of a typical batch; batches with another one can be fitted too.
    share : normalised event weights, None for equal ones.
    memory : bytes that may be allocated; what needs more is refused beforehand.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(1).exponential(size=(5000, 1))
    >>> prepare(x, x[:100], 0.7, penalty=1e-6, expected=500).rank < 40
    True
    """
    centres, phi = _project(
        reference, candidates, width, penalty=penalty, precision=precision, memory=memory
    )
    return _whiten(centres, phi, width, penalty=penalty, expected=expected, share=share)


def _project(
    x: Floats,
    candidates: Floats,
    width: float,
    *,
    penalty: float,
    precision: str,
    memory: int,
) -> tuple[Centres, Floats]:
    """Reduce the candidate centres, and give φ of the reference."""
    dtype = np.dtype(precision)
    n_rows, count = len(x), len(candidates)
    at_least = prepare_bytes(n_rows, 1, count, dtype.itemsize)
    refuse_beyond(memory, at_least, f"the reduction of {count} candidate centres")
    centres = reduce_centres(candidates, width, penalty)
    refuse_beyond(
        memory,
        prepare_bytes(n_rows, centres.rank, count, dtype.itemsize),
        f"the features of {n_rows} reference events at rank {centres.rank} (width {width:g})",
    )
    phi = np.empty((n_rows, centres.rank), dtype=dtype)
    for part in _slabs(n_rows):
        phi[part] = _phi(x[part], centres, width)
    return centres, phi


def _whiten(
    centres: Centres,
    phi: Floats,
    width: float,
    *,
    penalty: float,
    expected: float,
    share: Floats | None = None,
) -> Features:
    """Turn φ of the reference, which is overwritten, into features."""
    dtype = phi.dtype
    n_reference, rank = phi.shape
    gram = np.zeros((rank, rank))
    for part in _slabs(n_reference):
        rows = phi[part]
        if share is not None:
            rows = rows * np.sqrt(share[part], dtype=dtype)[:, None]
        gram += rows.T @ rows
    if share is None:
        gram /= n_reference
    penalty_n = penalty * (n_reference + expected)
    h0 = gram * (expected / 2)
    h0[np.diag_indices(rank)] += penalty_n
    upper = cholesky(h0, f"the Hessian at f = 0 (width {width:g})")
    upper_inv = solve_triangular(upper, np.eye(rank), lower=True, check_finite=False)
    to_psi = upper_inv.T.astype(dtype)
    mean = np.zeros(rank)
    psi = phi
    for part in _slabs(n_reference):
        psi[part] = times_upper(phi[part], to_psi, dtype)
        weights = np.full(len(psi[part]), 1 / n_reference) if share is None else share[part]
        mean += weights.astype(dtype) @ psi[part]
    return Features(
        width=width,
        penalty=penalty,
        centres=centres.points,
        psi=psi,
        share=None if share is None else share.astype(dtype),
        mean=mean,
        to_kernel=solve_triangular(centres.chol, upper_inv.T, lower=True, trans=1),
        s=upper_inv @ upper_inv.T,
        expected=expected,
        penalty_n=penalty_n,
    )


def shelve(sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Put consecutive batches on shelves: how many stand on each, and the rows each gets.

    Examples
    --------
    >>> shelve([100, 110, 0, 5000, 4900])
    [(2, 110), (1, 1), (2, 5000)]
    """
    shelves: list[list[int]] = []
    for size in sizes:
        if shelves:
            shelf = [*shelves[-1], size]
            if len(shelf) * max(shelf) <= PADDING * sum(shelf):
                shelves[-1] = shelf
                continue
        shelves.append([size])
    return [(len(shelf), max(1, *shelf)) for shelf in shelves]


def times_upper(rows: Any, upper: Any, dtype: Any) -> Any:
    """Multiply rows by an upper triangular matrix, leaving out most of what is zero.

    The triangular product of BLAS would leave out all of it, but scipy calls it without giving up
    the interpreter's lock, and no other thread could do anything meanwhile.
    """
    xp = array_namespace(rows)
    panels = []
    for start in range(0, upper.shape[0], PANEL):
        stop = min(start + PANEL, upper.shape[0])
        panels.append(xp.astype(rows[:, :stop] @ upper[:stop, start:stop], dtype, copy=False))
    return panels[0] if len(panels) == 1 else xp.concat(panels, axis=1)


def _phi(x: Floats, centres: Centres, width: float) -> Floats:
    kernel = gaussian(x, centres.points, width)
    return np.asarray(solve_triangular(centres.chol, kernel.T, lower=True, check_finite=False)).T


def _slabs(n_rows: int) -> Iterator[slice]:
    return (slice(start, start + SLAB) for start in range(0, n_rows, SLAB))
