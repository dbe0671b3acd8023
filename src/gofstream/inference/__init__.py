"""From t to a p-value: null distributions, p and Z, combinations, power."""
