"""Number formats: what a value is."""
