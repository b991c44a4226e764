from __future__ import annotations

import argparse
import sys

from . import ADMIN, Cluster, ToolMissing, prepare


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.support.opensearch", description="Run until Ctrl-C.")
    parser.add_argument("nodes", type=int, nargs="?", default=1)
    parser.add_argument("--secure", action="store_true", help="TLS, users and roles")
    parser.add_argument("--heap", default="512m", help="per node (default: %(default)s)")
    parser.add_argument("--prepare", action="store_true", help="only fill the cache, plain and secure")
    options = parser.parse_args()
    if options.prepare:
        for secure in (False, True):
            print(prepare(secure).directory)
        return
    with Cluster(options.nodes, options.heap, options.secure) as cluster:
        print(*cluster.urls, sep="\n", flush=True)
        if cluster.ca:
            print(f"CA: {cluster.ca}\nuser: {':'.join(ADMIN)}", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
    except ToolMissing as error:
        sys.exit(str(error))
