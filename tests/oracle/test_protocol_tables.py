"""The tables of `engine.protocol` against the descriptions inside the kafka-clients jar."""

import pytest

from tests.oracle.jvm import missing_programs
from tests.oracle.protocol_tables import FOLDER, modules
from tests.support.needs import lacking

pytestmark = pytest.mark.oracle


def test_the_tables_are_those_of_the_jar():
    if missing := missing_programs():
        lacking(f"the kafka-clients jar needs {', '.join(missing)}: not found")
    written = modules()
    assert {name: (FOLDER / name).read_text() for name in written} == written
    assert {path.name for path in FOLDER.glob("table_*.py")} == set(written)
