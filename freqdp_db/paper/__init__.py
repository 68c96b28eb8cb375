"""What reproduces the paper and nothing hands out: its comparisons, experiments and benchmarks."""
