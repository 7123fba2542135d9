"""Read the JSON report of pip-audit and say whether a release may be made.

pip-audit succeeds if it cannot reach its data, and skips the packages instead. Here, that is a failure of its own: exit
code 2, while 1 means that vulnerabilities were found.

    pip-audit --format json --requirement constraints.txt --no-deps --disable-pip | python tools/audit.py
"""

import json
import sys

VULNERABLE, UNCHECKED = 1, 2


def write(line: str) -> None:
    """Write a line to standard output."""
    sys.stdout.write(f"audit: {line}\n")


def main() -> int:
    """Write what was found in the report on standard input, and return the exit code."""
    try:
        packages = json.load(sys.stdin)["dependencies"]
    except ValueError:
        write("pip-audit wrote no report: nothing was checked")
        return UNCHECKED
    found = [(package, each) for package in packages for each in package.get("vulns", ())]
    skipped = [package["name"] for package in packages if "skip_reason" in package]
    for package, each in found:
        fixed = ", ".join(each["fix_versions"]) or "no version"
        write(f"{package['name']} {package['version']} has {each['id']}, fixed in {fixed}")
    if skipped:
        reason = "the vulnerability data cannot be reached, or does not know them"
        write(f"{len(skipped)} of {len(packages)} packages were not checked: {reason}")
    if not found and not skipped:
        write(f"no known vulnerabilities in {len(packages)} packages")
    return VULNERABLE if found else UNCHECKED if skipped else 0


if __name__ == "__main__":
    sys.exit(main())
