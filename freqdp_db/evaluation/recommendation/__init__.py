"""`freqdp recommend`: which method, with which parameters, on these data."""
