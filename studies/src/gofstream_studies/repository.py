"""Where the repository lies: pages and results of the studies are written into it."""

from __future__ import annotations

from pathlib import Path

#: The top folder of the repository, for an editable installation.
REPOSITORY = Path(__file__).parents[3]

#: The pages and pictures that the studies write.
RESULTS = REPOSITORY / "docs" / "results"
