"""What a broker would do at its next start: the steps of a start in order, its verdict in the broker's words."""
