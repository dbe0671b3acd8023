"""The paper's experiments: each figure and table by one command, beside what the paper says."""
