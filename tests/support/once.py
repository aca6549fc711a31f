"""Why a test is run once, with compiled kernels: interpreted it would say the same again, and is skipped (see conftest.py).

What each reason claims of a file is held by tests/test_house.py, as far as it can be told.
"""

from __future__ import annotations

import pytest

BOTH_BUILDS = pytest.mark.once("once: both builds of the kernels take part in the compiled run")
NO_KERNEL = pytest.mark.once("once: no kernel takes part")
OWN_PROCESS = pytest.mark.once("once: it is about processes of their own, which run on compiled kernels anyway")
