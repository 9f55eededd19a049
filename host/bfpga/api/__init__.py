"""What the commands and the functions of the package do between taking their arguments and showing results."""
