"""Bulk rows in and out by binary COPY."""
