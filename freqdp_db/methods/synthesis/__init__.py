"""Synthetic releases with a guarantee for a person: one object with all its data."""
