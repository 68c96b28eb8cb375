"""Datasets: register, validate, clean, snap, and build samples, locations, segments and grid."""
