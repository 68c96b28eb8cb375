"""K-nearest segments and K-nearest trajectories. Pure."""
