"""Kill each operation, cut its power or fail its disk, at every single file operation."""
