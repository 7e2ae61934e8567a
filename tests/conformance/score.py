"""Counts what the conformance suite wrote, and prints what fell short.

usage: score.py REVISION FOLDER [SCENARIO...]
    NOT_SCORED="a b"  leaves scenarios out of the count

A scenario that is named and was not run falls short. Exit 1 if anything does, or if nothing ran.
"""

import collections
import glob
import json
import os
import re
import sys

revision, folder, *named = sys.argv[1:]
left_out = set(os.environ.get("NOT_SCORED", "").split())
total, ran, short = collections.Counter(), set(), 0

for path in sorted(glob.glob(f"{folder}/server-*/checks.json")):
    stamped = os.path.basename(os.path.dirname(path)).removeprefix("server-")
    name = re.sub(r"-\d{4}-\d\d-\d\dT[\d-]+Z$", "", stamped)
    if name in left_out:
        continue
    with open(path, encoding="utf-8") as file:
        checks = json.load(file)
    count = collections.Counter(check["status"] for check in checks)
    ran.add(name)
    total.update(count)
    if count["SUCCESS"] and not count["FAILURE"] and not count["WARNING"]:
        continue
    short += 1
    for check in checks:
        if check["status"] in ("FAILURE", "WARNING"):
            error = (check.get("errorMessage") or "")[:300]
            print(f"{revision} {name}: {check['status']} {check['id']} [{check['name']}] {error}")
    if not count["SUCCESS"]:
        print(f"{revision} {name}: nothing succeeded {dict(count)}")

for name in named:
    if name not in ran:
        short += 1
        print(f"{revision} {name}: did not run")

print(
    f"{revision}: {total['SUCCESS']} success, {total['FAILURE']} failure, "
    f"{total['WARNING']} warning in {len(ran)} scenarios, {short} short"
)
sys.exit(1 if short or not ran else 0)
