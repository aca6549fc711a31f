"""An open file of an overlay: unchanged bytes from the disk, changed ones from memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.errors import UnreadableFile, UnwritableFile
from engine.files import OpenFile, WritableFile
from engine.overlay.content import Content
from engine.overlay.tree import Operation

if TYPE_CHECKING:
    from engine.files import Buffer
    from engine.overlay.tree import Changes, Disk, File


class OverlayFile(OpenFile):
    """A file of an overlay, open for reading or for both."""

    __slots__ = ("_changes", "_disk", "_node", "_opened", "_writable")

    def __init__(self, path: str, node: File, disk: Disk, changes: Changes, *, writable: bool) -> None:
        super().__init__(path, -1)
        self._node, self._disk, self._changes, self._writable = node, disk, changes, writable
        self._opened: dict[str, OpenFile] = {}
        if node.source is not None and node.content is None:
            self._source(node.source)

    def close(self) -> None:
        """Close the files on the disk. A second call does nothing."""
        while self._opened:
            self._opened.popitem()[1].close()

    def size(self) -> int:
        """The current size in bytes."""
        content, source = self._node.content, self._node.source
        if content is not None:
            return content.size
        assert source is not None  # a new file has content
        return self._source(source).size()

    def read_into(self, buffer: memoryview, position: int) -> int:
        """Fill `buffer` from byte `position`; returns the number of bytes read, fewer only at the end of the file."""
        content, source = self._node.content, self._node.source
        if content is None:
            assert source is not None  # a new file has content
            return self._source(source).read_into(buffer, position)
        if position < 0:
            raise UnreadableFile(f"{self.path}: Invalid argument")
        with self._changes.lock:
            parts = content.parts(position, max(position, min(content.size, position + len(buffer))))
        done = 0
        for part in parts:
            view = buffer[done : done + part.size]
            if part.data is not None:
                view[:] = part.data
            elif part.path is None:
                view[:] = bytes(part.size)
            else:
                spill = self._changes.spill
                spilled = None if spill is None else spill.file_of(part.path)
                count = (spilled or self._source(part.path)).read_into(view, part.position)
                if count < part.size:  # another process truncated it meanwhile
                    return done + count
            done += part.size
        return done

    def next_data(self, position: int, end: int) -> int:
        """As OpenFile does, if the file is unchanged; else return `position`."""
        content, source = self._node.content, self._node.source
        return position if content is not None or source is None else self._source(source).next_data(position, end)

    def write_at(self, position: int, *parts: Buffer) -> None:
        """Write all `parts` in order, starting at byte `position`. Raises UnwritableFile."""
        content = self._changed()
        if position < 0:
            raise UnwritableFile(f"{self.path}: Invalid argument")
        start = position
        with self._changes.lock:
            for part in parts:
                view = memoryview(part).cast("B")
                spilled = None if self._changes.spill is None else self._changes.spill.take(view)
                if spilled is None:
                    content.write(position, view)
                else:
                    content.put_parts(position, [spilled])
                position += len(view)
        if position > start:
            self._changes.note_write(self._node, self.path, start, position - start)

    def truncate(self, size: int) -> None:
        """Truncate the file to `size` bytes, or lengthen it with zeros. Raises UnwritableFile."""
        content = self._changed()
        if size < 0:
            raise UnwritableFile(f"{self.path}: Invalid argument")
        with self._changes.lock:
            content.truncate(size)
        self._changes.note(Operation("truncate", self.path, size=size), self._node)

    def sync(self) -> None:
        """Record the call."""
        self._changes.note(Operation("sync", self.path), self._node, modifies=False)

    def copy_from(self, other: OverlayFile, start: int, end: int, position: int) -> None:
        """Share the bytes [start, end) of `other`, without reading them. Raises UnreadableFile if it has fewer."""
        size = other.size()
        if end > size:
            raise UnreadableFile(f"{other.path}: became shorter than {end} bytes while it was read")
        content, node = self._changed(), other._node  # a file of the same class
        with self._changes.lock:
            theirs = Content(node.source, size) if node.content is None else node.content
            content.put_parts(position, theirs.parts(start, end))
        self._changes.note_write(self._node, self.path, position, end - start)

    def _changed(self) -> Content:
        """Return the content, kept in memory from now on."""
        if not self._writable:
            raise UnwritableFile(f"{self.path}: Bad file descriptor")
        node = self._node
        with self._changes.lock:
            if node.content is None:
                node.content = Content(node.source, self.size())
            return node.content

    def _source(self, path: str) -> OpenFile:
        file = self._opened.get(path)
        if file is None:
            file = self._opened[path] = self._disk.open(path)
        return file


class WritableOverlayFile(OverlayFile, WritableFile):
    """A file of an overlay, open for reading and writing."""

    __slots__ = ()
