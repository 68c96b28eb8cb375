"""What an attacker finds in a release."""
