"""A published release as files."""
