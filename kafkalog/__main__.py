"""`python -m kafkalog` is `kafkalog`."""

from kafkalog_cli.start import main

main()
