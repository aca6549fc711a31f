"""The page of `kafkalog report`: HTML and SVG without scripts, which loads nothing."""
