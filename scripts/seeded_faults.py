#!/usr/bin/env python3
"""Plants known faults of the epoch protocol, one at a time, and checks that a test fails for each.

A fault that survives is a missing test. The faults stand in tests/seeded_faults.toml; each replaces one piece of text of one file.
Usage: scripts/seeded_faults.py [name-part ...]    (works on a copy of the tree; needs Python 3.11 and cargo)
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib

# Longest time the tests that have to notice a fault may run.
SECONDS = 240
ROOT = pathlib.Path(__file__).resolve().parent.parent


def main() -> int:
    wanted = sys.argv[1:]
    faults = tomllib.loads((ROOT / "tests/seeded_faults.toml").read_text())["fault"]
    chosen = [f for f in faults if not wanted or any(part in f["name"] for part in wanted)]
    # Another selection of packages has other features, for which everything is built again.
    selective = [f["name"] for f in faults if "-p" in f["test"].split()]
    if selective:
        sys.exit(f"say --workspace instead of -p: {', '.join(selective)}")
    survived = []
    with tempfile.TemporaryDirectory(prefix="weir-faults-") as scratch:
        tree = pathlib.Path(scratch) / "tree"
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns("target", ".git"))
        rename_version(tree)
        for fault in chosen:
            verdict = plant(tree, fault)
            print(f"{fault['name']}: {verdict}", flush=True)
            if not verdict.startswith("killed"):
                survived.append(fault["name"])
    print(f"{len(chosen) - len(survived)} passed, {len(survived)} failed")
    return 1 if survived else 0


def rename_version(tree: pathlib.Path) -> None:
    """Another version makes cargo keep this tree's artifacts apart from the real one's in a shared target directory."""
    manifest = tree / "Cargo.toml"
    text = manifest.read_text().replace('version = "0.1.0"\nedition', 'version = "0.1.999"\nedition', 1)
    manifest.write_text(text)


def plant(tree: pathlib.Path, fault: dict) -> str:
    path = tree / fault["file"]
    original = path.read_text()
    if original.count(fault["find"]) != 1:
        return f"STALE: its text occurs {original.count(fault['find'])} times in {fault['file']}"
    path.write_text(original.replace(fault["find"], fault["replace"]))
    try:
        command = ["cargo", "test", "--no-fail-fast", *fault["test"].split()]
        build = subprocess.run([*command, "--no-run"], cwd=tree, capture_output=True, text=True)
        if build.returncode != 0:
            return "BROKEN: it does not compile\n" + build.stderr[-1500:]
        # A fault that makes a query run for ever is noticed by that: the test is ended with everything it started.
        limited = ["timeout", "--kill-after=5", str(SECONDS), *command]
        run = subprocess.run(limited, cwd=tree, capture_output=True, text=True)
        if run.returncode == 124:
            return f"killed by hanging ({SECONDS} s)"
    finally:
        path.write_text(original)
    killers = re.findall(r"^test (\S+) \.\.\. FAILED", run.stdout, re.M)
    return f"killed by {', '.join(killers[:3])}" if killers else "SURVIVED"


if __name__ == "__main__":
    sys.exit(main())
