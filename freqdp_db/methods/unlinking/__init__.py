"""Releases whose trajectories are pieces of one object's, or pieced together from several."""
