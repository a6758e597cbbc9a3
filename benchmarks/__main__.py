"""Run every benchmark in turn, each in a process of its own: ``make bench``, or ``python -m benchmarks NAME ...``."""

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
NAMES = sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))


def main() -> None:
    """Run the benchmarks that are named, or all; exit 1 if one of them failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    names = parser.parse_args().names
    if unknown := sorted(set(names) - set(NAMES)):
        parser.error(f"no benchmark {', '.join(unknown)}: choose from {', '.join(NAMES)}")
    failed = []
    for name in names or NAMES:
        print(f"== {name}", flush=True)
        if subprocess.run([sys.executable, HERE / f"bench_{name}.py"], check=False).returncode:
            failed.append(name)
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
