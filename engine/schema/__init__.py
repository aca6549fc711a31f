"""The records inside internal topics: one table of all versions, readers made from it. `decode` is the public face."""
