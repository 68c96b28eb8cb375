"""Attacks, utility, audits, recommendation, report. Reads originals; releases never import it."""
