"""The split of a query of the data source. It stands alone because pyspark 3.5, which runs the jobs, has no InputPartition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

if TYPE_CHECKING:
    from kafkalog_spark.table.planning import Piece


@dataclass
class Split(InputPartition):
    """The work of one task: plain values, since it is pickled."""

    pieces: list[Piece]
