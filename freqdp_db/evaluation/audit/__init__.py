"""`freqdp audit`: what an experiment can show of epsilon."""
