"""The records of internal topics: tables of all versions, and readers made from them. `decode` is the public interface."""
