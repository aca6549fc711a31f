"""The catalogues, one per internal topic, made on first use to keep the start fast."""

from __future__ import annotations

from functools import cache

from engine.schema.notation import Catalogue


@cache
def offsets() -> Catalogue:
    """Records of `__consumer_offsets`, and the messages inside their bytes."""
    from engine.schema import table_coordinator

    return Catalogue(table_coordinator.GROUPS + table_coordinator.STREAMS_GROUPS + table_coordinator.CONSUMER_PROTOCOL)


@cache
def transactions() -> Catalogue:
    """Records of `__transaction_state`."""
    from engine.schema import table_coordinator

    return Catalogue(table_coordinator.TRANSACTION_STATE)


@cache
def share_group_state() -> Catalogue:
    """Records of `__share_group_state`."""
    from engine.schema import table_coordinator

    return Catalogue(table_coordinator.SHARE_GROUP_STATE)


@cache
def cluster_metadata() -> Catalogue:
    """Records of `__cluster_metadata`, its snapshots and bootstrap.checkpoint."""
    from engine.schema import table_metadata

    return Catalogue(table_metadata.CLUSTER)


@cache
def remote_log_metadata() -> Catalogue:
    """Records of `__remote_log_metadata`."""
    from engine.schema import table_metadata

    return Catalogue(table_metadata.REMOTE_LOG)


@cache
def control() -> Catalogue:
    """KRaft's control records."""
    from engine.schema import table_metadata

    return Catalogue(table_metadata.CONTROL_RECORDS)
