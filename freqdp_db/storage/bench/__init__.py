"""What benchmarks compare with, in SQL."""
