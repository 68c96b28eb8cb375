"""Exact noise, accounting, and what a guarantee says."""
