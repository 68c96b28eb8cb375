"""Exposure: what an attacker learns from a release, of whatever kind."""
