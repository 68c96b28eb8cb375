"""freqdp: frequency-based anonymization of trajectories that sit in PostgreSQL/PostGIS."""

__version__ = "0.1.0"
