"""From a path to the files it means: file names, discovery, quoted globs, unfinished sink commits."""
