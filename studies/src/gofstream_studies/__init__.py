"""What uses gofstream to show something: the paper's experiments, data sets, benchmarks, trials."""
