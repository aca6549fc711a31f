"""The commands, one module each: options and help. Their common code is in the parent package."""
