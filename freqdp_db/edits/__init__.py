"""Intra- and inter-trajectory modification: which edits reach the targets at the least loss. Pure."""
