from typing import Any

from matplotlib.axes import Axes
from numpy.typing import ArrayLike

def histplot(H: ArrayLike, bins: ArrayLike, *, ax: Axes, **kwargs: Any) -> Any: ...
