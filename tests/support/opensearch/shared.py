"""One node for all test processes: the process that starts them keeps it, they find it by a file."""

from __future__ import annotations

import threading
from pathlib import Path

from .cluster import Cluster, Servers, until

BOOT_SECONDS = 600.0  # the first use downloads the jars


class SharedNode:
    """Keeps a node from `start` to `stop`, without letting anybody wait who does not need it."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "address"
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="shared OpenSearch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the node. Returns when it is gone."""
        self._over.set()
        self._thread.join()

    def _keep(self) -> None:
        try:
            with Cluster() as cluster:
                self._publish(cluster.urls[0])
                self._over.wait()
        except BaseException as problem:  # whoever waits for the node must hear of it
            self._publish(f"it did not start: {problem!r}")
            raise

    def _publish(self, text: str) -> None:
        partial = self._file.with_suffix(".partial")
        partial.write_text(text)
        partial.rename(self._file)

    @staticmethod
    def find(folder: Path) -> Servers:
        """The node that another process keeps. Waits until it serves. Raises RuntimeError if it could not start."""
        file = folder / "address"
        until(file.exists, BOOT_SECONDS, "the OpenSearch that all test processes share")
        text = file.read_text()
        if not text.startswith("http"):
            raise RuntimeError(f"OpenSearch for tests: {text}")
        return Servers([text])
