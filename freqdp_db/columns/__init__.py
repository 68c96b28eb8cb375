"""Columns that all layers share: trajectories, ragged columns, draws and edits."""
