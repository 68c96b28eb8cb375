"""Signature closure (`sc`, `rsc`): drops what is most telling, without noise, to compare with."""
