"""Synthetic releases with a guarantee for one object with all its data."""
