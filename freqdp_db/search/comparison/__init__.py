"""Searches that exist to compare the default one with."""
