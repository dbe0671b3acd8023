"""What kills, full disks and damage do to a store: nothing that was acknowledged may be lost."""
