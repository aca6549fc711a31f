"""`python -m kafkalog_cli` is `kafkalog`."""

from kafkalog_cli.start import main

main()
