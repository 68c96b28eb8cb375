"""Where kernels run: over ranges of whole trajectories, on all cores."""
