import numpy as np
from numpy.typing import NDArray

class HistGradientBoostingClassifier:
    def __init__(self, *, early_stopping: bool, random_state: int) -> None: ...
    def fit(
        self,
        x: NDArray[np.floating],
        y: NDArray[np.float64],
        sample_weight: NDArray[np.float64] | None = None,
    ) -> HistGradientBoostingClassifier: ...
    def predict_proba(self, x: NDArray[np.floating]) -> NDArray[np.float64]: ...
