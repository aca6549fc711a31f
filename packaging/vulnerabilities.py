"""Fails if a version has a known vulnerability, or could not be looked up: part of `make audit`.

    pip-audit --format=json … | python packaging/vulnerabilities.py
"""

from __future__ import annotations

import json
import sys


def main() -> None:
    """Print what was found, and what was not looked up; end with status 1 if there is any of it."""
    try:
        packages = json.load(sys.stdin)["dependencies"]
    except ValueError:
        sys.exit("vulnerabilities: pip-audit failed, see build/audit.log; nothing was looked up")
    unknown = [one for one in packages if "skip_reason" in one]
    found = [(one, each) for one in packages for each in one.get("vulns", ())]
    for one, each in found:
        fixed = f"fixed in {', '.join(each['fix_versions'])}" if each["fix_versions"] else "no version has a fix"
        print(f"{one['name']} {one['version']}: {each['id']}, {fixed}")
    if unknown:
        print(f"NOT looked up: {', '.join(one['name'] for one in unknown)}; the first reason: {unknown[0]['skip_reason']}")
    print(f"{len(packages) - len(unknown)} of {len(packages)} packages were looked up, {len(found)} known vulnerabilities")
    if len(unknown) == len(packages):
        print("nothing is known: this machine's package index has no vulnerability data; run `make audit` where PyPI itself can be reached")
    sys.exit(1 if found or unknown or not packages else 0)


if __name__ == "__main__":
    main()
