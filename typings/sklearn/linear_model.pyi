import numpy as np
from numpy.typing import NDArray

class LogisticRegression:
    def __init__(self, *, max_iter: int) -> None: ...
    def fit(
        self,
        x: NDArray[np.floating],
        y: NDArray[np.float64],
        sample_weight: NDArray[np.float64] | None = None,
    ) -> LogisticRegression: ...
    def predict_proba(self, x: NDArray[np.floating]) -> NDArray[np.float64]: ...
