"""From a path to its files: file names, discovery, quoted globs, unfinished sink commits."""
