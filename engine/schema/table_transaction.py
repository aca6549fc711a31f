"""Records of `__transaction_state` (Kafka 4.3.1; see notation.py)."""

MESSAGES = """
message TransactionLogKey key 0 versions 0
  transactionalId  string

message TransactionLogValue value 0 versions 0-1 flexible 1+
  producerId                        int64
  previousProducerId                int64  1+ tag 0 = -1
  nextProducerId                    int64  1+ tag 1 = -1
  producerEpoch                     int16
  nextProducerEpoch                 int16  1+ tag 3 = -1
  transactionTimeoutMs              int32
  transactionStatus                 int8
  transactionPartitions             []PartitionsSchema?
    topic                           string
    partitionIds                    []int32
  transactionLastUpdateTimestampMs  int64
  transactionStartTimestampMs       int64
  clientTransactionVersion          int16  1+ tag 2 = 0
"""
