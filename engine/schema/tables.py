"""The catalogues: one per internal topic, made when first used, so that start-up does not pay for them."""

from __future__ import annotations

from functools import cache

from engine.schema.notation import Catalogue


@cache
def offsets() -> Catalogue:
    """Records of `__consumer_offsets`, and what their bytes hold."""
    from engine.schema import table_group, table_streams

    return Catalogue(table_group.MESSAGES + table_streams.MESSAGES + table_group.CONSUMER_PROTOCOL)


@cache
def transactions() -> Catalogue:
    """Records of `__transaction_state`."""
    from engine.schema import table_remote

    return Catalogue(table_remote.TRANSACTION_STATE)


@cache
def share_group_state() -> Catalogue:
    """Records of `__share_group_state`."""
    from engine.schema import table_streams

    return Catalogue(table_streams.SHARE_GROUP_STATE)


@cache
def cluster_metadata() -> Catalogue:
    """Records of `__cluster_metadata`, its snapshots and bootstrap.checkpoint."""
    from engine.schema import table_metadata

    return Catalogue(table_metadata.MESSAGES)


@cache
def remote_log_metadata() -> Catalogue:
    """Records of `__remote_log_metadata`."""
    from engine.schema import table_remote

    return Catalogue(table_remote.MESSAGES)


@cache
def control() -> Catalogue:
    """KRaft's control records."""
    from engine.schema import table_metadata

    return Catalogue(table_metadata.CONTROL_RECORDS)
