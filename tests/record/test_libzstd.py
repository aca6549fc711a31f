"""libzstd's own functions: found where the package gives them away, a thread's own, and the same bytes as the module's."""

from __future__ import annotations

import gc
import threading
from array import array

import pytest
import zstandard

from engine.formats import LEFT_OUT, BatchField, Codec
from engine.kernels.tables import ZSTD_WORDS, Zstd
from engine.record.codecs import libzstd
from engine.record.columns import BatchColumns


@pytest.fixture
def searching():
    """The functions are looked for again, now and afterwards."""
    libzstd._functions.cache_clear()
    yield
    libzstd._functions.cache_clear()
    libzstd._of_thread.calls = None


def test_the_package_gives_them_away():
    assert len(libzstd.calls()) == ZSTD_WORDS
    assert all(libzstd.calls())


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("row", [0, 3])
def test_only_zstd_batches_ask_for_them(codec, row):
    """Wherever they are: in front of them may be markers, which have no codec."""
    table = BatchColumns(8).table
    table[BatchField.MAGIC, row], table[BatchField.ATTRIBUTES, row] = 2, codec
    assert bool(len(libzstd.calls_for(table, 0, 4))) == (codec == Codec.ZSTD)
    assert len(libzstd.calls_for(table, row + 1, 8)) == 0
    table[BatchField.BODY, row] = LEFT_OUT
    assert len(libzstd.calls_for(table, 0, 4)) == 0


def test_each_thread_has_contexts_of_its_own_that_go_with_it(monkeypatch):
    freed, free = [], libzstd._free
    monkeypatch.setattr(libzstd, "_free", lambda library, *contexts: (freed.append(contexts), free(library, *contexts)))
    found = []
    thread = threading.Thread(target=lambda: found.append(list(libzstd.calls())))
    thread.start()
    thread.join()
    gc.collect()
    mine, (its,) = libzstd.calls(), found
    assert its[Zstd.DECOMPRESS] == mine[Zstd.DECOMPRESS]
    contexts = its[Zstd.DECOMPRESSION], its[Zstd.COMPRESSION]
    assert set(contexts).isdisjoint((mine[Zstd.DECOMPRESSION], mine[Zstd.COMPRESSION]))
    assert freed == [contexts]


@pytest.mark.usefixtures("searching")
@pytest.mark.parametrize("modules", [(), ("zstandard.nothing",), ("zstandard",), ("json",)])
def test_without_such_a_library_there_are_none(monkeypatch, modules):
    monkeypatch.setattr(libzstd, "_MODULES", modules)
    assert libzstd.calls() == memoryview(array("Q"))


@pytest.mark.usefixtures("searching")
def test_a_library_of_another_version_is_not_taken(monkeypatch):
    monkeypatch.setattr(zstandard, "ZSTD_VERSION", (1, 4, 0))
    assert len(libzstd.calls()) == 0
