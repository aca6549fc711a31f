"""What Spark hands to a task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

if TYPE_CHECKING:
    from kafkalog_spark.table.planning import Piece


@dataclass
class Split(InputPartition):
    """One task: plain values, since it is pickled."""

    pieces: list[Piece]
