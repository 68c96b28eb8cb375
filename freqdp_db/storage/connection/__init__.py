"""Connections, transactions, locks and names."""
