"""Releases: the pipeline, its tables, verification, export and withdrawal."""
