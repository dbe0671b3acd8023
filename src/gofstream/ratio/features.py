"""Whitened features of the reference: made once, shared by every fit.

With centres c_1..c_r and K_cc = L Lᵀ, φ(x) = L⁻¹ k(x, c) turns the penalty aᵀK_cc a into bᵀb. With
H0 = ½ N(R) Σ_R v φφᵀ + λN = U Uᵀ, the Hessian of J at f = 0 for data that follow the reference,
ψ(x) = U⁻¹ φ(x) turns that Hessian into the identity. A fit therefore works with f = ψ(x)·z and is
well conditioned from the start. In these coordinates the penalty is λN zᵀS z with S = U⁻¹U⁻ᵀ, and
the curvature of the reference term is (I - λN S)/2: no r × r matrix but S is needed.

Rows ψ of the reference are stored if they fit into memory. If not, kernel rows k(x, c) are made
anew in every pass: f = k(x, c)·a with a = L⁻ᵀU⁻ᵀz, so that nothing but the kernel itself has to be
computed again. These coefficients are large and alternate in sign, so kernel rows are in double
precision, but for the first passes of a fit. H0 then comes from a part of the reference.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from gofstream.errors import refuse_beyond
from gofstream.execution import hands, share_out
from gofstream.ratio.arrays import Points, nbytes, to_numpy
from gofstream.ratio.centres import BLOCK, REACH, Centres, reduce_centres, reduction_bytes
from gofstream.ratio.kernel import KernelRows, gaussian, kernel_slabs
from gofstream.ratio.linalg import (
    cholesky,
    panels,
    upper_times,
    upper_transposed_times,
)

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
#: Share of the memory budget that stored rows of the reference may take: the rest is for fits.
STORED = 0.75
#: Rows that have to be made are made in so many strips, or in fewer of so many rows each: a thread
#: takes one at a time, and they are the same for any number of threads.
STRIPS, STRIP_ROWS = 64, 16 * 1024
#: Rows of the reference from which H0 is made where rows are not stored: so many for each centre,
#: and not fewer than this.
GRAM_FACTOR, GRAM_ROWS = 50, 100_000


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """One width, one reference, one set of centres: all that a block of fits shares.

    Attributes
    ----------
    psi : (N_R, r) whitened features of the reference, in the working precision; None if kernel rows
        are made when they are needed.
    made : makes them, then.
    share : (N_R,) normalised event weights, or None when all are equal.
    mean : (r,) Σ_R share ψ.
    to_kernel : (r, r) upper triangular; a = to_kernel @ z gives the coefficients of the kernels.
    s : (r, r) the matrix S of the penalty.
    expected : N(R) of the nominal batch the whitening was made for.
    penalty_n : λN of that batch.
    precision : the working precision: of stored rows, and what fits are converged to.
    held : bytes of the reference that they were made of.
    """

    width: float
    penalty: float
    centres: Floats
    psi: Any
    made: KernelRows | None
    share: Any
    mean: Floats
    to_kernel: Any
    s: Any
    expected: float
    penalty_n: float
    precision: str
    held: int

    @property
    def _there(self) -> Any:
        return self.psi if self.made is None else self.made.columns

    @property
    def rank(self) -> int:
        """Number of features r."""
        return len(self.centres)

    @property
    def dtype(self) -> Any:
        """The precision of rows."""
        return self._there.dtype

    @property
    def namespace(self) -> tuple[Any, Any]:
        """The array library, and the device, of all large arrays."""
        return array_namespace(self._there), device(self._there)

    @property
    def nbytes(self) -> int:
        """Memory the features take, with the reference."""
        return self.held + nbytes(self._there, self.to_kernel, self.s)

    @property
    def n_reference(self) -> int:
        """Number of rows of the reference."""
        return int(self.psi.shape[0]) if self.made is None else len(self.made.points)

    def strips(self) -> list[slice]:
        """Cut the reference into strips that threads share: one, unless rows have to be made."""
        count = self.n_reference
        if self.made is None:
            return [slice(0, count)]
        rows = max(STRIP_ROWS, -(-count // (STRIPS * RUN)) * RUN)
        return [slice(start, min(start + rows, count)) for start in range(0, count, rows)]

    def chunks(self, columns: int, strip: slice | None = None) -> Iterator[tuple[Any, Any]]:
        """Yield (rows, share) in chunks that stay in cache while ``columns`` fits use them.

        Those of one strip, or of the whole reference.

        This is the only way the solver reads the reference. f is rows @ `inward` (z), and what is
        pulled back through rows goes through `outward`: rows are ψ, or kernel values. Those of one
        chunk may be overwritten by the next.
        """
        rows = min(CHUNK_ROWS, CHUNK_BYTES // (4 * self.rank), CHUNK_VALUES // columns)
        rows = max(1, rows // RUN) * RUN
        first, stop = (0, self.n_reference) if strip is None else (strip.start, strip.stop)
        buffer = None if self.made is None else self.made.buffer(min(rows, stop - first))
        for start in range(first, stop, rows):
            part = slice(start, min(start + rows, stop))
            yield self._rows(part, buffer), None if self.share is None else self.share[part]

    def _rows(self, part: slice, buffer: Any) -> Any:
        if self.made is None:
            return self.psi[part, :]
        out = None if buffer is None else buffer[: part.stop - part.start, :]
        return self.made.rows(part, out)

    def rough(self) -> Features:
        """Give the same with rows made in single precision."""
        if self.made is None:
            return self
        xp, _ = self.namespace
        share = None if self.share is None else xp.astype(self.share, xp.float32)
        return replace(self, made=self.made.rough(), share=share)

    def inward(self, z: Floats) -> Any:
        """Turn whitened coefficients (r, T) into those of the rows, in their precision."""
        xp, where = self.namespace
        own = z if self.made is None else self.coefficients(z)
        return xp.asarray(own, dtype=self.dtype, device=where)

    def outward(self, pulled: Floats) -> Floats:
        """Turn sums of rows (r, T) into sums of ψ."""
        if self.made is None:
            return pulled
        return upper_transposed_times(to_numpy(self.to_kernel), pulled)

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
        xp, where = self.namespace
        centres = xp.asarray(self.centres, device=where)
        dtype = getattr(xp, self.precision) if whiten else centres.dtype
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
        return upper_times(to_numpy(self.to_kernel), z)

    def log_ratio(self, x: Floats, z: Floats) -> Floats:
        """Evaluate f at any events, one column per column of z."""
        coefficients = self.coefficients(z)
        # One column's values lie together.
        out = np.empty((*z.shape[1:], len(x)))
        for part, kernel in kernel_slabs(x, self.centres, self.width):
            out[..., part] = (kernel @ coefficients).T
        return out.T

    def log_ratio_reference(self, z: Floats) -> Floats:
        """Evaluate f on the reference: (N_R,) or (N_R, T)."""
        coefficients = self.inward(z)
        columns = 1 if z.ndim == 1 else z.shape[1]
        out, start = np.empty((*z.shape[1:], self.n_reference)), 0
        for rows, _ in self.chunks(columns):
            stop = start + rows.shape[0]
            out[..., start:stop] = to_numpy(rows @ coefficients).T
            start = stop
        return out.T


def prepare_bytes(
    n_reference: int, rank: int, n_candidates: int, itemsize: int, *, stored: bool = True
) -> int:
    """Peak memory of `prepare`: of the reduction, or of features and matrices after it."""
    slab = min(SLAB, n_reference) * (rank * (8 + 8 + itemsize))
    features = (n_reference * rank * itemsize if stored else 0) + 6 * 8 * rank**2 + slab
    return max(reduction_bytes(n_candidates, rank), features)


def rows_are_stored(
    n_reference: int, rank: int, n_candidates: int, itemsize: int, memory: int
) -> bool:
    """Whether `prepare` stores the rows of the reference: they fit, and leave room for fits."""
    whole = prepare_bytes(n_reference, rank, n_candidates, itemsize)
    return whole <= memory and n_reference * rank * itemsize <= STORED * memory


def refuse_candidates(reference: Points, count: int, memory: int) -> None:
    """Raise `MemoryBudgetError` if not even the reduction of the candidates fits."""
    what = f"the reference and the reduction of {count} candidate centres"
    refuse_beyond(memory, reference.nbytes + reduction_bytes(count, BLOCK), what)


def prepare(
    reference: Points,
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

    Rows that do not fit into memory are not stored, but made when they are needed.

    Parameters
    ----------
    reference : (N_R, D) scaled reference.
    candidates : (M, D) candidate centres.
    width : σ.
    penalty : λ.
    expected : N(R) of a typical batch; batches with another one can be fitted too.
    share : normalised event weights, None for equal ones.
    memory : bytes that may be allocated; what needs more in any case is refused beforehand.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(1).exponential(size=(5000, 1))
    >>> prepare(x, x[:100], 0.7, penalty=1e-6, expected=500).rank < 40
    True
    """
    dtype, count = np.dtype(precision), len(candidates)
    held = reference.nbytes
    refuse_candidates(reference, count, memory)
    centres = reduce_centres(candidates, width, penalty, memory=memory - held)
    stored = rows_are_stored(len(reference), centres.rank, count, dtype.itemsize, memory - held)
    needed = held + prepare_bytes(
        len(reference), centres.rank, count, dtype.itemsize, stored=stored
    )
    what = f"the reference and the matrices of rank {centres.rank} (width {width:g})"
    refuse_beyond(memory, needed, what)
    return features_of(
        reference,
        centres,
        width,
        penalty=penalty,
        expected=expected,
        share=share,
        precision=precision,
        stored=stored,
        helping=1 + (memory - needed) // (4 * CHUNK_BYTES),
    )


def features_of(
    reference: Points,
    centres: Centres,
    width: float,
    *,
    penalty: float,
    expected: float,
    share: Floats | None = None,
    precision: str = "float32",
    stored: bool = True,
    helping: int | None = None,
) -> Features:
    """Make the whitened features of the reference for centres that are chosen already.

    Parameters are those of `prepare`; and

    stored : whether rows are stored, or made when needed.
    helping : threads that there is room for; None for any number.
    """
    dtype = np.dtype(precision)
    psi: Floats | None = None
    made: KernelRows | None = None
    if stored:
        psi = _project(reference, centres, width, dtype)
        gram = _gram(psi, share)
    else:
        made = KernelRows.of(reference, centres.points, width)
        gram = gram_of_part(reference, centres, width, share)
    penalty_n = penalty * (len(reference) + expected)
    h0 = gram * (expected / 2)
    h0[np.diag_indices(centres.rank)] += penalty_n
    upper = cholesky(h0, f"the Hessian at f = 0 (width {width:g})")
    upper_inv = solve_triangular(upper, np.eye(centres.rank), lower=True, check_finite=False)
    features = Features(
        width=width,
        penalty=penalty,
        centres=centres.points,
        psi=psi,
        made=made,
        share=None if share is None else share.astype(dtype if made is None else np.float64),
        mean=np.zeros(centres.rank),
        to_kernel=solve_triangular(centres.chol, upper_inv.T, lower=True, trans=1),
        s=upper_inv @ upper_inv.T,
        expected=expected,
        penalty_n=penalty_n,
        precision=precision,
        held=reference.nbytes,
    )
    if psi is None:
        threads = hands() if helping is None else min(hands(), helping)
        for sums in share_out(lambda strip: _sums(features, strip), features.strips(), threads):
            features.mean[:] += sums
        return replace(features, mean=features.outward(features.mean))
    to_psi = upper_inv.T.astype(dtype)
    for part in _slabs(len(reference)):
        psi[part] = times_upper(psi[part], to_psi, dtype)
        weights = np.full(len(psi[part]), 1 / len(reference)) if share is None else share[part]
        features.mean[:] += weights.astype(dtype) @ psi[part]
    return features


def _sums(features: Features, strip: slice) -> Floats:
    """Σ share k(x, c) over some rows of the reference."""
    sums = np.zeros(features.rank)
    for rows, own in features.chunks(RUN, strip):
        weights = np.full(len(rows), 1 / features.n_reference) if own is None else own
        sums += weights @ rows
    return sums


def _project(x: Points, centres: Centres, width: float, dtype: np.dtype[Any]) -> Floats:
    """Give φ of the reference."""
    phi = np.empty((len(x), centres.rank), dtype=dtype)
    for part in _slabs(len(x)):
        phi[part] = _phi(x[part], centres, width)
    return phi


def _gram(phi: Floats, share: Floats | None) -> Floats:
    """Σ_R share φφᵀ."""
    gram = np.zeros((phi.shape[1], phi.shape[1]))
    for part in _slabs(len(phi)):
        rows = phi[part]
        if share is not None:
            rows = rows * np.sqrt(share[part], dtype=phi.dtype)[:, None]
        gram += rows.T @ rows
    return gram if share is not None else gram / len(phi)


def gram_rows(rank: int) -> int:
    """Rows of the reference that determine Σ_R share φφᵀ well enough to whiten with."""
    return max(GRAM_ROWS, GRAM_FACTOR * rank)


def gram_of_part(x: Points, centres: Centres, width: float, share: Floats | None = None) -> Floats:
    """Estimate Σ_R share φφᵀ from as many rows as determine it."""
    wanted = gram_rows(centres.rank)
    gram, seen = np.zeros((centres.rank, centres.rank)), 0.0
    # From all over the reference, which may be sorted.
    for part in itertools.islice(_slabs(len(x)), 0, None, max(1, len(x) // wanted)):
        rows = _phi(x[part], centres, width).astype(np.float32)
        weights = np.ones(len(rows)) if share is None else share[part]
        rows *= np.sqrt(weights, dtype=np.float32)[:, None]
        gram += rows.T @ rows
        seen += float(weights.sum())
    return gram / seen


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
    """Multiply rows by an upper triangular matrix, leaving out most of what is zero."""
    xp = array_namespace(rows)
    made = [
        xp.astype(rows[:, :stop] @ upper[:stop, start:stop], dtype, copy=False)
        for start, stop in panels(upper.shape[0])
    ]
    return made[0] if len(made) == 1 else xp.concat(made, axis=1)


def _phi(x: Floats, centres: Centres, width: float) -> Floats:
    kernel = gaussian(x, centres.points, width)
    return np.asarray(solve_triangular(centres.chol, kernel.T, lower=True, check_finite=False)).T


def _slabs(n_rows: int) -> Iterator[slice]:
    return (slice(start, start + SLAB) for start in range(0, n_rows, SLAB))
