"""What fits cost on this machine: its yardsticks, the paper's cases, memory and growth."""
