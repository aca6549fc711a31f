"""Fails if an installed package has a licence that is not in the list below: part of `make audit`.

    pip-licenses --format=json --from=mixed | python packaging/licences.py
"""

from __future__ import annotations

import json
import re
import sys

# what the names of licences begin with, in classifiers and as SPDX expressions
ALLOWED = (
    "Apache", "BSD", "3-Clause BSD", "0BSD", "MIT", "ISC", "PSF", "Python Software Foundation", "Zlib", "CC0", "Unlicense",
    "MPL", "Mozilla Public",
    # of libraries that are imported and not changed, and that a user can replace: crc32c, pygal
    "LGPL", "GNU Lesser General Public License", "GNU Library or Lesser",
)  # fmt: skip


def is_allowed(licence: str) -> bool:
    """Return whether a licence is allowed: of each `AND` and `;` every part, of each `OR` one."""
    parts = re.split(r"\s+AND\s+|;", licence.replace("(", " ").replace(")", " "))
    return all(any(one.strip().startswith(ALLOWED) for one in re.split(r"\s+OR\s+", part)) for part in parts)


def main() -> None:
    """Print the packages with other licences, and end with status 1 if there are some."""
    packages = json.load(sys.stdin)
    wrong = [one for one in packages if not is_allowed(one["License"])]
    for one in wrong:
        print(f"{one['Name']} {one['Version']}: {one['License']}")
    print(f"licences of {len(packages)} packages: {len(wrong)} not allowed")
    sys.exit(1 if wrong or not packages else 0)


if __name__ == "__main__":
    main()
