"""Logs opened with options as keywords."""

from engine.log.loading.loader import open_log as open_with
from engine.log.loading.shared import LoadOptions


def open_log(files, directory, config, *, now, clean_shutdown, report=None, names=None, **options):
    """See engine.log.loading.loader.open_log; `options` are fields of LoadOptions."""
    given = LoadOptions(**options)
    return open_with(
        files, directory, config, now=now, clean_shutdown=clean_shutdown, options=given, report=report, names=names
    )
