"""The rows of our own tables, one module for each kind of record."""
