"""Engines run functions over ranges of whole trajectories; what they give is merged in order."""
