"""A real OpenSearch for the tests and benchmarks, one node or several, from Maven Central.

    with Cluster(nodes=3) as cluster:
        cluster.urls                 # ["http://127.0.0.1:23456", ...]
        cluster.nodes[0].kill()      # also stop, pause, resume
        cluster.nodes[0].start()     # same ports, same data
        cluster.wait()               # until green again

The first use needs Maven and a JDK, and about a minute. Only the server and its essential plugins are there: HTTP,
reindex, painless and, with `secure=True`, TLS, users and roles. `python -m tests.support.opensearch` starts one by
hand.

Environment: MAHAVISHNU_OPENSEARCH_CACHE is the directory for the jars; MAHAVISHNU_OPENSEARCH_MAVEN_ARGS selects another
version (3.x needs JDK 21), such as `-Dopensearch.version=3.4.0`.
"""

from __future__ import annotations

from .cluster import ADMIN, Cluster, Node, Servers, prepare, state_of_cache, until
from .shared import SharedNode
from .tools import ToolMissing

__all__ = ["ADMIN", "Cluster", "Node", "Servers", "SharedNode", "ToolMissing", "prepare", "state_of_cache", "until"]
