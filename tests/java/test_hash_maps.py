"""The order of java.util.HashMap. tests/cli and tests/producer compare it with what the real tool and producer do."""

from __future__ import annotations

import pytest

from engine.java.hash_maps import hash_of_text, hash_order


@pytest.mark.parametrize(("paths", "order"), [
    (["a", "b", "q"], ["a", "q", "b"]),  # codes 97, 98, 113: buckets 1, 2, 1 of 16
    (["q", "a", "b"], ["q", "a", "b"]),
    (["b", "p"], ["p", "b"]),  # 112: bucket 0
    (["Aa", "BB", "AB"], ["Aa", "BB", "AB"]),  # 2112 twice: bucket 0, by age
    (["ü", "a"], ["a", "ü"]),  # 252: bucket 12
    ([], []),
])
def test_paths_come_as_a_hash_map_of_java_walks_them(paths, order):
    assert hash_order(paths, hash_of_text) == order


def test_a_hash_map_grows_at_three_quarters():
    """'a' is in bucket 1 of 16, and of 32; 'q' too of 16, but in bucket 17 of 32."""
    assert hash_order(["q", "a", *"bcdefghijk"], hash_of_text)[:2] == ["q", "a"]
    assert hash_order(["q", "a", *"bcdefghijkl"], hash_of_text).index("q") > 1


def test_names_of_any_bytes_have_a_hash():
    assert len(hash_order(["\udcff", "\U0001f600"], hash_of_text)) == 2
