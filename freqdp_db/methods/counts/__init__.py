"""Counts by zone and time bin, with differential privacy for one object with all its data."""
