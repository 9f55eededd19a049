"""What the engines beside the array share."""
