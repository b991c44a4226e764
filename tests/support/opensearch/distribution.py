"""OpenSearch put together from Maven Central: jars, our launcher, and an archive that halves the boot time."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from .tools import CACHE, tool

HERE = Path(__file__).parent
MAVEN_ARGS = os.environ.get("MAHAVISHNU_OPENSEARCH_MAVEN_ARGS", "").split()


class Distribution:
    """A directory in the cache, good for one set of sources, JDK and Maven arguments.

    After `build()` it boots, and its first boot records the classes it loads; `publish()` then makes the recording
    available to every later boot, which is what marks the directory as complete.
    """

    def __init__(self, secure: bool) -> None:
        self._java = tool("java")
        self._maven_args = [*MAVEN_ARGS, "-Psecurity"] if secure else MAVEN_ARGS
        jdk = subprocess.run([self._java, "-version"], check=True, capture_output=True).stderr
        sources = [(HERE / name).read_bytes() for name in ("pom.xml", "OpenSearchNode.java")]
        key = hashlib.sha256(repr((sources, jdk, self._maven_args)).encode()).hexdigest()[:16]
        self.directory = CACHE / key
        self.security_config = self.directory / "config"
        self._archive = self.directory / "classes.jsa"
        self._recording = self.directory / "classes.jsa.partial"

    @property
    def ready(self) -> bool:
        return self._archive.exists()

    def build(self) -> None:
        print(f"Building OpenSearch for tests in {self.directory} (once, about a minute)", file=sys.stderr)
        shutil.rmtree(self.directory, ignore_errors=True)  # left by a build that was interrupted
        maven = (tool("mvn"), "-q", "-B", "-f", str(HERE / "pom.xml"), *self._maven_args)
        _run(*maven, "dependency:copy-dependencies", f"-DoutputDirectory={self.directory}")
        for bundle in self.directory.glob("*.zip"):
            self._unpack(bundle)
        classes = self.directory / "classes"
        _run(tool("javac"), "-nowarn", "-cp", self._class_path(), "-d", classes, HERE / "OpenSearchNode.java")
        with zipfile.ZipFile(self.directory / "node.jar", "w") as jar:  # the class archive knows jars only
            for file in classes.iterdir():
                jar.write(file, file.name)

    def publish(self) -> None:
        self._recording.touch()  # some JREs cannot record; they ignore the empty file
        self._recording.rename(self._archive)

    def command(self, scratch: Path, home: Path, heap: str, *, lasting: bool) -> list[str]:
        """How a node is started. One that is not `lasting` spends nothing on the best code, which pays off later."""
        sharing = f"SharedArchiveFile={self._archive}" if self.ready else f"ArchiveClassesAtExit={self._recording}"
        return [
            self._java,
            f"-Xms{heap}",
            f"-Xmx{heap}",
            f"-XX:{sharing}",
            *([] if lasting else ["-XX:TieredStopAtLevel=1"]),
            "-XX:+ExitOnOutOfMemoryError",
            "-Dlog4j2.level=info",
            "-cp",
            self._class_path(),
            "OpenSearchNode",
            str(scratch),
            str(home),
        ]

    def _class_path(self) -> str:
        return os.pathsep.join(str(jar) for jar in sorted(self.directory.glob("*.jar")))

    def _unpack(self, bundle: Path) -> None:
        """A plugin's jars join the class path, except for libraries that are on it in another version."""
        present = {_unversioned(jar.name) for jar in self.directory.glob("*.jar")}
        with zipfile.ZipFile(bundle) as archive:
            for name in archive.namelist():
                if name.startswith("config/") or (name.endswith(".jar") and _unversioned(name) not in present):
                    archive.extract(name, self.directory)
        bundle.unlink()


def _unversioned(jar: str) -> str:
    return re.sub(r"-\d.*", "", jar)


def _run(*command: str | Path) -> None:
    subprocess.run(command, check=True, stdout=2)
