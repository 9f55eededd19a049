"""What every engine gives the rest of the toolkit: its record, and the units of what it takes."""
