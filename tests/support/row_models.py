"""Models of kernels that look for the first batch or record of a kind: one line of Python each."""

from __future__ import annotations

from hypothesis import strategies as st

# (row, last_row); None: the whole table; some lie outside it
SPAN = st.none() | st.tuples(st.integers(0, 3), st.integers(0, 7)).map(sorted) | st.tuples(st.integers(-1, 9), st.just(9))


def columns_of(columns, rows):
    for at, values in enumerate(rows):
        for field, value in values.items():
            columns.table[field, at] = value
    return columns.table


def first(span, count, fits):
    """The first row of the span that fits, else the end; the end, too, where the span lies outside `count` rows."""
    row, last_row = span
    return next((at for at in range(row, last_row) if fits(at)), last_row) if row >= 0 and last_row <= count else last_row
