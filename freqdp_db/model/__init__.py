"""What passes between rooms: arrays, trajectories, edits, areas, documents."""
