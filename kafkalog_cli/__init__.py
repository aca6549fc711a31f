"""The program `kafkalog`."""

import gc

gc.set_threshold(50_000)  # modules are no garbage: looking at them again and again is an eighth of a start
