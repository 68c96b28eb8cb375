"""What analysts lose."""
