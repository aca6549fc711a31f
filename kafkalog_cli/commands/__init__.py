"""The commands, a module each: options and help. What they do with the engine stands one level above."""
