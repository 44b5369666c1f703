"""What a Kafka broker needs on this machine, made or fetched once: Java, Maven, openssl, Kafka's jars.

Everything stands under WEIR_KAFKA_DIR (else ~/.cache/weir-kafka), in a directory named after the version in pom.xml.
"""

import contextlib
import fcntl
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

POM = pathlib.Path(__file__).resolve().parent / "pom.xml"
CACHE = pathlib.Path(os.environ.get("WEIR_KAFKA_DIR") or pathlib.Path.home() / ".cache/weir-kafka").absolute()
# The first tier of the compiler and the simplest collector: a broker of a test lives for seconds.
JVM = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xshare:auto", "-Xlog:disable",
       "-XX:+ExitOnOutOfMemoryError", "-Dorg.slf4j.simpleLogger.showDateTime=true",
       "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS"]


class Failure(Exception):
    """What went wrong, for a person."""


def say(text: str) -> None:
    print(f"kafka broker: {text}", file=sys.stderr, flush=True)


def home() -> pathlib.Path:
    """Everything that is made once; another pom.xml has another directory."""
    text = POM.read_bytes()
    version = re.search(rb"<kafka.version>(.+?)</kafka.version>", text)[1].decode()
    return CACHE / version / hashlib.sha256(text).hexdigest()[:8]


@contextlib.contextmanager
def locked(path: pathlib.Path):
    """Holds the lock file `path`: one process at a time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def made_whole(path: pathlib.Path):
    """A scratch directory beside `path`. Who makes `path` in it renames it from there, so that it is whole or absent."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".making-", dir=path.parent, ignore_cleanup_errors=True) as scratch:
        yield pathlib.Path(scratch)


def find_java():
    named = os.environ.get("JAVA_HOME")
    return (shutil.which(f"{named}/bin/java") if named else None) or shutil.which("java")


def java() -> str:
    found = find_java()
    if not found:
        raise Failure("Java is not installed: run `scripts/kafka/broker install`, or `apt-get install default-jre-headless`")
    return os.path.realpath(found)


def archive() -> pathlib.Path:
    """The classes of a running broker as this Java maps them into memory; halves the time a start takes."""
    binary = os.stat(java())
    return home() / f"classes-{hashlib.sha256(f'{java()} {binary.st_size} {binary.st_mtime_ns}'.encode()).hexdigest()[:8]}.jsa"


def class_path() -> str:
    jars = sorted(map(str, (home() / "jars").glob("*.jar")), key=lambda jar: ("kafka" not in jar.rsplit("/")[-1], jar))
    return ":".join(jars)


def commands_there() -> bool:
    return find_java() is not None and shutil.which("openssl") is not None


def get_commands() -> None:
    """Installs those that are missing; Maven only if it is needed."""
    missing = [] if find_java() else ["default-jre-headless"]
    missing += [] if shutil.which("openssl") else ["openssl"]
    missing += [] if shutil.which("mvn") or (home() / "jars").exists() else ["maven"]
    apt_get(missing)
    version = subprocess.run([java(), "-version"], capture_output=True, text=True).stderr
    major = re.search(r'version "(\d+)', version)
    if not major or int(major[1]) < 17:
        raise Failure(f"Kafka needs Java 17 or later; {java()} says: {' '.join(version.splitlines()[:1])}")


def apt_get(packages: list) -> None:
    if not packages:
        return
    advice = f"not installed and needed for Kafka: {', '.join(packages)} (names of Debian's packages); install them, then run this again"
    if not shutil.which("apt-get"):
        raise Failure(advice)
    sudo = [] if os.getuid() == 0 else ["sudo"] if sys.stdin.isatty() else ["sudo", "-n"]
    say(f"installing {', '.join(packages)}")
    for arguments in (["update", "-q"], ["install", "-y", "-q", "--no-install-recommends", *packages]):
        if subprocess.run([*sudo, "apt-get", *arguments], stdout=sys.stderr).returncode != 0:
            raise Failure(advice)


def download() -> None:
    say(f"fetching Kafka's jars into {home()}")
    with made_whole(home() / "jars") as scratch:
        shutil.copy(POM, scratch / "pom.xml")
        command = ["mvn", "-B", "-q", "-f", f"{scratch}/pom.xml", "dependency:copy-dependencies", "-DincludeScope=runtime",
                   f"-DoutputDirectory={scratch}/jars"]
        if subprocess.run(command, stdout=sys.stderr).returncode != 0:
            raise Failure("Maven could not fetch Kafka's jars: see above")
        os.rename(scratch / "jars", home() / "jars")


def tool_command(name: str) -> list:
    """The start of a command line that runs a class of Kafka's."""
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    return [java(), *JVM, f"-XX:SharedArchiveFile={archive()}", quiet, "-cp", class_path(), name]
