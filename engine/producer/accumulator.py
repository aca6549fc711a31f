"""Batches that wait to be sent, in a queue per partition: filled with records, found ready, taken out, put back, split.

Mirrors RecordAccumulator, BufferPool and ExponentialBackoff.
"""

from __future__ import annotations

import math
from array import array
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from engine.formats import INT_MAX, LONG_MAX
from engine.java.hash_maps import GrowingOrder, hash_of_text
from engine.kernels.accumulate import group_rows, rows_of, same_kind, upper_bound, upper_bounds
from engine.producer.batch import CompressionRatioEstimator, FinalState, ProducerBatch
from engine.producer.cluster import TopicPartition
from engine.producer.failures import ProducerError
from engine.producer.partitioner import UNKNOWN_PARTITION, BuiltInPartitioner

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from engine.producer.batch import Records
    from engine.producer.cluster import Cluster
    from engine.producer.config import ProducerConfig
    from engine.producer.partitioner import Random, Sticky
    from engine.producer.sequences import TransactionManager

    Queue = deque[ProducerBatch]

_ROWS = 4096  # rows that are grouped at once: more of them do not fit into the processor's cache
_JITTER = 0.2  # CommonClientConfigs.RETRY_BACKOFF_JITTER


class Appended(NamedTuple):
    """Records that went into one batch at once.

    start      index of the first of them in the batch        rows  their row numbers
    new_batch  the batch was made for the first of them
    is_full    the batch is full, or another one waits before it
    size       bytes by which the estimated size of the partition's batches grew
    """

    batch: ProducerBatch
    start: int
    rows: memoryview
    new_batch: bool
    is_full: bool
    size: int


class Ready(NamedTuple):
    """Nodes to which data can be sent, in the order of a HashSet; ms until more may be ready."""

    nodes: list[int]
    delay_ms: int


class BufferPool:
    """Counts the memory of batches (buffer.memory), and uses buffers of the usual size again. Mirrors BufferPool; never waits.

    waiting  a record waits for memory, so every batch is sent
    """

    def __init__(self, total: int, usual: int) -> None:
        self.total = self.available = total
        self.waiting = False
        self._usual, self._free = usual, list[bytearray]()

    def take(self, size: int) -> bytearray:
        """Return a buffer, of memory that is available; its content is undefined."""
        self.available -= size
        return self._free.pop() if size == self._usual and self._free else bytearray(size)

    def give_back(self, size: int, buffer: bytearray) -> None:
        """Return memory. `buffer`: the one that the batch has now, perhaps a larger one."""
        self.available += size
        if len(buffer) == self._usual:
            self._free.append(buffer)


class Backoff:
    """The time to wait before another attempt, in ms. `uniform` returns a random number from 0 to 1."""

    def __init__(self, initial: int, largest: int, uniform: Callable[[], float]) -> None:
        self._initial, self._largest, self._uniform = min(initial, largest), largest, uniform
        self._doublings = math.log2(largest / max(initial, 1)) if largest > initial else 0.0

    def after(self, attempts: int) -> int:
        """Return the time after `attempts` earlier attempts."""
        if self._doublings == 0:
            return self._initial
        term = self._initial * 2 ** min(attempts, self._doublings)
        factor = 1 - _JITTER + 2 * _JITTER * self._uniform()
        return min(int(factor * term), self._largest)


class _Topic:
    """The queues of a topic, in the order of its CopyOnWriteMap, and its partitioner."""

    def __init__(self, partitioner: BuiltInPartitioner) -> None:
        self.partitioner = partitioner
        self.queues: dict[int, Queue] = {}
        self._order: GrowingOrder[int] = GrowingOrder(int)

    def queue(self, partition: int) -> Queue:
        """Return the queue of a partition; makes it if necessary."""
        found = self.queues.get(partition)
        if found is None:
            found = self.queues[partition] = deque()
            self._order.add(partition)
        return found

    def in_order(self) -> Iterator[tuple[int, Queue]]:
        """Return partitions and queues in Java's order."""
        return ((partition, self.queues[partition]) for partition in self._order.keys)


class RecordAccumulator:
    """Collects records of any number of topics until they are sent.

    now     returns the time in ms        random   31 bits for the sticky partitioner        uniform  0 to 1, for the backoff
    closed  no records are accepted, and every batch is sent
    muted   partitions of which no batch is sent
    """

    def __init__(
        self, config: ProducerConfig, now: Callable[[], int], random: Random, uniform: Callable[[], float],
        transactions: TransactionManager | None,
    ) -> None:  # fmt: skip
        self._config, self._now, self._random, self._transactions = config, now, random, transactions
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, uniform)
        self.memory = BufferPool(config.buffer_memory, config.batch_size)
        self.estimates = CompressionRatioEstimator()
        self.incomplete: dict[ProducerBatch, None] = {}
        self.muted: set[TopicPartition] = set()
        self.flushes = 0
        self.closed = False
        self.next_expiry_ms = LONG_MAX
        self._topics: dict[str, _Topic] = {}
        self._topic_order: GrowingOrder[str] = GrowingOrder(hash_of_text)
        self._drain_index: dict[int, int] = {}
        self._rows = memoryview(array("q"))
        self._latencies: dict[int, tuple[int, int]] = {}  # node → last time with ready batches, last time it took them

    # ---- records in

    def append(self, topic: str, records: Records, first: int, end: int, cluster: Cluster) -> tuple[int, list[Appended]]:
        """Append the records first … end − 1 → (number of the next one, what was appended).

        Stops early if there is no memory for a batch: send some, and call again.
        """
        state, at, stopped = self._topic(topic), first, False
        done: list[Appended] = []
        while at < end and not stopped:
            call = _Call(topic, state, cluster, records, done)
            stop = min(end, at + _ROWS)
            if stop == at + 1 or not self._has_memory_for(call, at, stop):
                at, stopped = self._append_in_order(call, at, stop)
            elif same_kind(records.partitions, at, stop) == stop and records.partitions[at] != UNKNOWN_PARTITION:
                self._append_grouped(call, at, stop, UNKNOWN_PARTITION)
                at = stop
            else:
                at = self._append_mixed(call, at, stop)
        return at, done

    def _append_mixed(self, call: _Call, first: int, end: int) -> int:
        """Append records with and without a partition: those of the sticky one in order, until it changes; then the others."""
        while first < end:
            sticky = call.state.partitioner.current(call.cluster)
            rows = memoryview(bytearray(8 * (end - first))).cast("q")
            count = rows_of(call.records.partitions, first, end, sticky.partition, rows)
            at, is_lacking = self._fill(call, sticky, rows, 0, count)
            if is_lacking:
                raise AssertionError(f"{call.topic}: there was memory for rows {first} to {end - 1}")
            stop = rows[at] if at < count else end
            self._append_grouped(call, first, stop, sticky.partition)
            first = stop
        return first

    def _append_grouped(self, call: _Call, first: int, end: int, skipped: int) -> None:
        """Append records by partition, without those that have none or `skipped`. There is memory for them."""
        partitions = call.records.partitions
        starts = memoryview(bytearray(8 * (len(call.cluster.topics[call.topic].leaders) + 1))).cast("q")
        rows = memoryview(bytearray(8 * (end - first))).cast("q")
        if not group_rows(partitions, first, end, skipped, starts, rows):
            raise AssertionError("partitions and rows do not match")
        for partition in range(len(starts) - 1):
            if starts[partition] < starts[partition + 1]:
                _, is_lacking = self._fill(call, partition, rows, starts[partition], starts[partition + 1])
                if is_lacking:
                    raise AssertionError(f"{call.topic}: there was memory for rows {first} to {end - 1}")

    def _append_in_order(self, call: _Call, first: int, end: int) -> tuple[int, bool]:
        """Append record by record → (number of the next one, is memory lacking?)."""
        rows, partitions = self._identity(end), call.records.partitions
        while first < end:
            is_sticky = partitions[first] == UNKNOWN_PARTITION
            target = call.state.partitioner.current(call.cluster) if is_sticky else partitions[first]
            stop = same_kind(partitions, first, end) if is_sticky else first + 1
            first, is_lacking = self._fill(call, target, rows, first, stop)
            if is_lacking:
                return first, True
        return first, False

    def _identity(self, end: int) -> memoryview:
        """Return the numbers from 0 to at least `end` − 1: rows in their own order."""
        if len(self._rows) < end:
            self._rows = memoryview(array("q", range(2 * end)))
        return self._rows

    def _has_memory_for(self, call: _Call, first: int, end: int) -> bool:
        """Return whether the records fit into memory however they are distributed.

        Two consecutive batches of a partition are together larger than a buffer, by their estimated sizes. So a partition needs
        one buffer, and further ones of at most twice the estimated size of its records.
        """
        records, partitions = call.records, len(call.cluster.topics[call.topic].leaders)
        stop, largest, total = upper_bounds(records.data, records.columns.table, first, end, INT_MAX)
        estimated = total * max(1.0, 1.05 * self.estimates.estimation(call.topic))
        size = max(self._config.batch_size, largest)
        return bool(stop == end) and 2 * estimated + size * min(partitions, end - first) <= self.memory.available

    def _fill(self, call: _Call, target: int | Sticky, rows: memoryview, first: int, end: int) -> tuple[int, bool]:
        """Append the records rows[first:end] to a partition → (index of the next one, is memory lacking?).

        target  the partition, or the sticky one: then the method returns early after a switch to another one
        """
        records, filling = call.records, _Filling(call, target)
        queue = call.state.queue(filling.partition)
        while first < end:
            last = queue[-1] if queue else None
            if self._has_switched(filling, last, rows[first]):
                break
            at, before, spent = first, 0, 0
            if last is not None and not last.is_full:
                before = last.estimated_size
                at, spent = last.append(records, rows, first, end, self._now(), filling.budget)
            is_new = at == first  # it does not fit
            if is_new:
                if last is not None:
                    last.records.close()
                size = max(self._config.batch_size, upper_bound(records.data, records.columns.table, rows[first]))
                if not self._has_room(size):
                    return first, True
                if self._has_switched(filling, queue[-1] if queue else None, rows[first]):
                    break
                last, before = self._open(call.topic, filling.partition, queue, size), 0
                at, spent = last.append(records, rows, first, end, self._now(), filling.budget)
            assert last is not None
            size, is_full = last.estimated_size - before, bool(last.records.is_filled)
            call.done.append(Appended(last, last.count - (at - first), rows[first:at], is_new, len(queue) > 1 or is_full, size))
            first = at
            if filling.update(spent, switch=is_full and filling.chooses(rows[at - 1])):
                break
        return first, False

    def _has_switched(self, filling: _Filling, last: ProducerBatch | None, row: int) -> bool:
        """Return whether a switch that waited for a full batch is due before a record."""
        return filling.chooses(row) and (last is None or last.is_full) and filling.update(0, switch=True)

    def _has_room(self, size: int) -> bool:
        """Return whether there is memory for a batch now. Raises ProducerError if there never is."""
        if size > self.memory.total:
            limit = f"there is a hard limit of {self.memory.total} on memory allocations."
            raise ProducerError("IllegalArgumentException", f"Attempt to allocate {size} bytes, but {limit}")
        return size <= self.memory.available

    def _open(self, topic: str, partition: int, queue: Queue, size: int) -> ProducerBatch:
        """Make a batch for the next records, at the end of its queue."""
        ratio = self.estimates.estimation(topic)
        batch = ProducerBatch(TopicPartition(topic, partition), self._config.spec, self.memory.take(size), ratio, self._now())
        queue.append(batch)
        self.incomplete[batch] = None
        return batch

    def last_batch(self, partition: TopicPartition) -> ProducerBatch | None:
        """Return the last batch that waits for a partition, which takes records."""
        queue = self._queue(partition)
        return queue[-1] if queue else None

    def waiting(self, partition: TopicPartition) -> int:
        """Return the number of batches that wait for a partition."""
        return len(self._queue(partition))

    def _topic(self, name: str) -> _Topic:
        found = self._topics.get(name)
        if found is None:
            found = self._topics[name] = _Topic(BuiltInPartitioner(name, self._config.batch_size, self._random))
            self._topic_order.add(name)
        return found

    def _queue(self, partition: TopicPartition) -> Queue:
        return self._topic(partition.topic).queue(partition.partition)

    # ---- batches out

    def ready(self, cluster: Cluster, now: int) -> Ready:
        """Find the nodes to which batches can be sent, and update the load of partitions for the sticky partitioner."""
        ready = Ready([], LONG_MAX)
        for name in self._topic_order.keys:
            ready = self._topic_ready(name, cluster, now, ready)
        return ready._replace(nodes=cluster.in_hash_order(ready.nodes))

    def _topic_ready(self, name: str, cluster: Cluster, now: int, ready: Ready) -> Ready:
        state, delay = self._topics[name], ready.delay_ms
        is_adaptive = self._config.adaptive_partitioning and len(state.queues) >= (cluster.partition_count(name) or 0)
        sizes, ids, count = [0] * len(state.queues), [0] * len(state.queues), 0
        for partition, queue in state.in_order():
            one = TopicPartition(name, partition)
            leader = cluster.leader(one)
            if leader is not None:
                ids[count] = partition
                count += 1
            if not queue:
                continue
            batch = queue[0]
            batch.note_leader(cluster.leader_epoch(one))
            if leader is None:
                continue
            sizes[count - 1] = len(queue)
            if self._is_slow(leader):
                count -= 1  # as in Kafka, an empty queue that follows inherits the length
            if leader in ready.nodes or one in self.muted:
                continue
            left = self._time_left(batch, now, full=len(queue) > 1 or batch.is_full)
            if left is None:
                ready.nodes.append(leader)
            else:
                delay = min(delay, left)
        if is_adaptive:
            state.partitioner.update_load(sizes, ids, count)
        else:
            state.partitioner.forget_load()
        return ready._replace(delay_ms=delay)

    def _time_left(self, batch: ProducerBatch, now: int, *, full: bool) -> int | None:
        """Return ms until the first batch of a queue may be sent; None: it can be sent now."""
        waited = batch.waited_ms(now)
        backing_off = self._is_backing_off(batch, waited)
        wait = self._backoff.after(max(0, batch.attempts - 1)) if backing_off else self._config.linger_ms
        is_completing = self._transactions is not None and self._transactions.is_completing
        sendable = full or waited >= wait or self.memory.waiting or self.closed or self.flushes > 0 or is_completing
        return None if sendable and not backing_off else max(wait - waited, 0)

    def _is_backing_off(self, batch: ProducerBatch, waited: int) -> bool:
        return batch.attempts > 0 and waited < self._backoff.after(batch.attempts - 1) and not batch.has_new_leader

    def note_latency(self, node: int, now: int, *, can_drain: bool) -> None:
        """Remember that a node with ready batches took them, or did not."""
        if self._config.availability_timeout_ms > 0:
            _, drained = self._latencies.get(node, (now, now))
            self._latencies[node] = (now, now if can_drain else drained)

    def _is_slow(self, node: int) -> bool:
        """Return whether a node has not taken its batches for `partitioner.availability.timeout.ms`."""
        if self._config.availability_timeout_ms <= 0 or node not in self._latencies:
            return False
        ready, drained = self._latencies[node]
        return ready - drained > self._config.availability_timeout_ms

    def drain(self, cluster: Cluster, nodes: Iterable[int], now: int) -> dict[int, list[ProducerBatch]]:
        """Take at most one batch of each partition, up to `max.request.size` bytes for each node."""
        return {node: self._drain_node(cluster, node, now) for node in nodes}

    def _drain_node(self, cluster: Cluster, node: int, now: int) -> list[ProducerBatch]:
        partitions = cluster.by_node[node]
        taken: list[ProducerBatch] = []
        size = 0
        if not partitions:
            return taken
        start = self._drain_index.get(node, 0) % len(partitions)
        for turn in range(len(partitions)):
            index = (start + turn) % len(partitions)
            one = partitions[index]
            self._drain_index[node] = index
            queue = self._queue_of(one)
            if not queue or one in self.muted:
                continue
            first = queue[0]
            first.note_leader(cluster.leader_epoch(one))
            if self._is_backing_off(first, first.waited_ms(now)):
                continue
            if taken and size + first.estimated_size > self._config.max_request_size:
                break
            if self._transactions is not None and self._transactions.blocks(first):
                break
            queue.popleft()
            if self._transactions is not None and not first.has_sequence:
                self._transactions.assign_sequence(first)
            size += len(first.close(self.estimates))
            taken.append(first)
        return taken

    def _queue_of(self, partition: TopicPartition) -> Queue | None:
        topic = self._topics.get(partition.topic)
        return None if topic is None else topic.queues.get(partition.partition)

    # ---- batches back

    def put_back(self, batch: ProducerBatch, now: int) -> None:
        """Put a batch back to the front of its queue, to send it again."""
        batch.put_back(now)
        self._insert(batch)

    def split_and_put_back(self, batch: ProducerBatch) -> None:
        """Replace a batch that was too large for the broker by smaller ones; a batch that came from a split, by halves."""
        topic = batch.partition.topic
        self.estimates.set(topic, max(1.0, batch.observed_ratio))
        size = self._config.batch_size
        if batch.is_split:
            size = max(batch.records.largest, batch.estimated_size // 2)
        for part in reversed(batch.split(size, self.estimates)):
            self.incomplete[part] = None
            if self._transactions is not None:
                self._transactions.track(part)
            self._insert(part)

    def _insert(self, batch: ProducerBatch) -> None:
        """Put a batch to the front, but after batches with smaller sequences."""
        queue, before = self._queue(batch.partition), []
        if self._transactions is not None:
            while queue and queue[0].has_sequence and queue[0].base_sequence < batch.base_sequence:
                before.append(queue.popleft())
        queue.appendleft(batch)
        queue.extendleft(reversed(before))

    def release(self, batch: ProducerBatch) -> None:
        """Forget a batch that is done, and return its memory."""
        self.incomplete.pop(batch, None)
        self.release_memory(batch)

    def release_memory(self, batch: ProducerBatch) -> None:
        """Return the memory of a batch, once. Batches that come from a split have memory of their own."""
        if not batch.is_released:
            batch.is_released = True
            buffer = batch.free()
            if not batch.is_split:
                self.memory.give_back(batch.capacity, buffer)

    def expired(self, now: int) -> list[ProducerBatch]:
        """Take out batches whose delivery timeout is over."""
        found = []
        for name in self._topic_order.keys:
            for _, queue in self._topics[name].in_order():
                while queue and queue[0].has_expired(self._config.delivery_timeout_ms, now):
                    found.append(queue.popleft())
                if queue:
                    self.note_expiry(queue[0])
        return found

    def note_expiry(self, batch: ProducerBatch) -> None:
        """Remember when a batch expires, if it is the next one."""
        self.next_expiry_ms = min(self.next_expiry_ms, batch.created_ms + self._config.delivery_timeout_ms)

    def abort(self, error: ProducerError, *, only_undrained: bool = False) -> None:
        """Abort batches. `only_undrained`: those that were sent, or have a sequence, are left."""
        has_transactions = self._transactions is not None
        chosen: Collection[ProducerBatch] = list(self.incomplete)
        for batch in chosen:
            if only_undrained and (batch.has_sequence if has_transactions else batch.is_closed):
                continue
            queue = self._queue(batch.partition)
            if batch in queue:
                queue.remove(batch)
            batch.finish(FinalState.ABORTED, error=error)
            if batch.in_flight:
                self.incomplete.pop(batch, None)
            else:
                self.release(batch)


class _Call(NamedTuple):
    """What the steps of `append` have in common."""

    topic: str
    state: _Topic
    cluster: Cluster
    records: Records
    done: list[Appended]


class _Filling:
    """What `_fill` fills: a partition of a topic, or its sticky partition."""

    def __init__(self, call: _Call, target: int | Sticky) -> None:
        self._call = call
        self._sticky = None if isinstance(target, int) else target
        self.partition = target if isinstance(target, int) else target.partition

    @property
    def budget(self) -> int:
        """The bytes after which the sticky partition has to change."""
        return INT_MAX if self._sticky is None else 2 * self._call.state.partitioner.sticky_size - self._sticky.produced

    def chooses(self, row: int) -> bool:
        """Return whether a record goes to the sticky partition because it has no partition of its own."""
        return self._sticky is not None and bool(self._call.records.partitions[row] < 0)

    def update(self, spent: int, *, switch: bool) -> bool:
        """See BuiltInPartitioner.update."""
        if self._sticky is None:
            return False
        return self._call.state.partitioner.update(self._sticky, spent, self._call.cluster, switch=switch)
