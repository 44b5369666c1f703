"""A cluster of brokers in one directory: what they are told, how they start, how they end."""

import base64
import contextlib
import ctypes
import io
import json
import os
import pathlib
import random
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import traceback
import uuid

from jars import JVM, Failure, archive, class_path, home, java, locked

# Seconds: until a broker answers, and from SIGTERM to SIGKILL.
READY, GRACE = 180, 10
USER, PASSWORD = "weir", "weir-secret"

# Small and prompt: what otherwise takes minutes (retention, compaction, timed out transactions) takes a fraction of a second.
# `{all}` is the number of brokers, `{most}` of them are a majority. A killed broker is missed after `{session}` ms, and only then may it
# come back; less would take brokers for dead that a busy machine keeps waiting.
SETTINGS = """\
process.roles=broker,controller
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
auto.create.topics.enable=false
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=100
group.consumer.min.session.timeout.ms=100
group.consumer.min.heartbeat.interval.ms=50
offsets.topic.num.partitions={all}
offsets.topic.replication.factor={all}
transaction.state.log.num.partitions={all}
transaction.state.log.replication.factor={all}
transaction.state.log.min.isr={most}
transaction.abort.timed.out.transaction.cleanup.interval.ms=200
share.coordinator.state.topic.num.partitions={all}
share.coordinator.state.topic.replication.factor={all}
share.coordinator.state.topic.min.isr={most}
log.initial.task.delay.ms=100
log.retention.check.interval.ms=300
log.segment.delete.delay.ms=1000
log.cleaner.backoff.ms=200
log.cleaner.dedupe.buffer.size=8388608
log.index.size.max.bytes=1048576
broker.heartbeat.interval.ms=200
broker.session.timeout.ms={session}
controller.quorum.append.linger.ms=5
num.network.threads=2
num.io.threads=4
metric.reporters=
"""


def server_properties(node: int, brokers: list, data: pathlib.Path, tls) -> str:
    count = len(brokers)
    text = SETTINGS.format(all=count, most=count // 2 + 1, session=6000)
    ports = next(broker for broker in brokers if broker["id"] == node)
    listeners = f"PLAINTEXT://127.0.0.1:{ports['plain']},CONTROLLER://127.0.0.1:{ports['controller']}"
    if tls:
        listeners += f",SASL_SSL://127.0.0.1:{ports['sasl']}"
        jaas = "org.apache.kafka.common.security"
        text += f"sasl.enabled.mechanisms=SCRAM-SHA-512,PLAIN\nssl.keystore.type=PEM\nssl.keystore.location={tls}/server.pem\n"
        text += f"listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config={jaas}.scram.ScramLoginModule required;\n"
        text += f'listener.name.sasl_ssl.plain.sasl.jaas.config={jaas}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";\n'
    voters = ",".join(f"{broker['id']}@127.0.0.1:{broker['controller']}" for broker in brokers)
    text += f"node.id={node}\nlog.dirs={data}\nlisteners={listeners}\ncontroller.quorum.voters={voters}\n"
    return text + "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL\n"


def kafka_uuid() -> str:
    """128 random bits as Kafka writes them; it takes none that begin with a dash."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A")


def free_ports(count: int) -> list:
    """Ports below those the system gives to outgoing connections: a client that tries to reach a dead broker must not become one."""
    lowest = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    candidates = range(10000, max(lowest, 20000))
    with contextlib.ExitStack() as held:
        ports = []
        while len(ports) < count:
            port = random.choice(candidates)
            probe = held.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                ports.append(port)
        return ports


def make_certificates(tls: pathlib.Path) -> None:
    """ca.pem, and server.pem: key and certificate for 127.0.0.1 and localhost, signed by it."""
    tls.mkdir(parents=True)
    (tls / "openssl.cnf").write_text(
        "[req]\ndistinguished_name=name\nprompt=no\n[name]\nO=Weir tests\n[ca]\nbasicConstraints=critical,CA:TRUE\n"
        "keyUsage=critical,keyCertSign\nsubjectKeyIdentifier=hash\n[server]\nsubjectAltName=IP:127.0.0.1,DNS:localhost\n")
    key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -config openssl.cnf"
    commands = [f"req -x509 {key} -extensions ca -subj /CN=ca.test -days 3650 -keyout ca.key -out ca.pem",
                f"req {key} -subj /CN=localhost -keyout server.key -out server.csr",
                "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 3650 -extfile openssl.cnf -extensions server "
                "-out server.crt"]
    for command in commands:
        run = subprocess.run(["openssl", *command.split()], cwd=tls, capture_output=True, text=True)
        if run.returncode != 0:
            raise Failure(f"openssl {command}: {run.stderr}")
    (tls / "server.pem").write_text("".join((tls / name).read_text() for name in ("server.key", "server.crt", "ca.pem")))
    (tls / "client.properties").write_text(
        f"security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\nssl.truststore.type=PEM\nssl.truststore.location={tls}/ca.pem\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{USER}" password="{PASSWORD}";\n')


def process_identity(pid: int):
    """A process for ever, None if it is gone: its number may come again, but not with the same moment of birth."""
    with contextlib.suppress(OSError):
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return {"pid": pid, "born": int(fields[19])}
    return None


def keep(command: list, log: pathlib.Path, parent, answer: int) -> None:
    """The keeper of one broker, a process of its own: ends the broker when `parent` ends. When the keeper is killed, the kernel kills
    the broker. Writes the broker's pid to `answer`; never returns."""
    try:
        os.setsid()
        os.chdir(log.parent)
        output, null = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644), os.open(os.devnull, os.O_RDWR)
        for descriptor, target in ((null, 0), (output, 1), (output, 2), (answer, 3)):
            os.dup2(descriptor, target)
        os.closerange(4, 1 << 16)
        watched = select.poll()
        if parent:
            parent_ends = os.pidfd_open(parent["pid"])
            if process_identity(parent["pid"]) != parent:
                raise Failure("the process to live as long as is gone")
            watched.register(parent_ends, select.POLLIN)
        keeper, libc = os.getpid(), ctypes.CDLL(None)

        def die_with_keeper() -> None:
            libc.prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
            if os.getppid() != keeper:
                os._exit(1)

        broker = subprocess.Popen(command, preexec_fn=die_with_keeper)
        os.write(3, str(broker.pid).encode())
        os.close(3)
        watched.register(os.pidfd_open(broker.pid), select.POLLIN)
        watched.poll()
        broker.kill()
        broker.wait()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(0)


class Cluster:
    """What DIR/cluster.json says, and what can be done with it."""

    def __init__(self, directory: pathlib.Path):
        self.directory = directory.resolve()
        self.file = self.directory / "cluster.json"
        self.state = json.loads(self.file.read_text()) if self.file.exists() else None

    def __getitem__(self, key: str):
        if self.state is None:
            raise Failure(f"no cluster in {self.directory}: there is no cluster.json")
        return self.state.get(key)

    def write(self) -> None:
        staged = self.file.with_suffix(".staged")
        staged.write_text(json.dumps(self.state, indent=2) + "\n")
        os.rename(staged, self.file)

    def marker(self, node: int) -> str:
        return f"-Dweir.broker={self.directory}/{node}"

    def chosen(self, node) -> list:
        brokers = [broker for broker in self["brokers"] if node in (None, broker["id"])]
        if not brokers:
            raise Failure(f"no broker {node}: there are {[broker['id'] for broker in self['brokers']]}")
        return brokers

    def runs(self, broker: dict) -> bool:
        """Whether its process is still that broker: a pid may have gone to another."""
        with contextlib.suppress(OSError):
            return self.marker(broker["id"]).encode() in pathlib.Path(f"/proc/{broker['pid']}/cmdline").read_bytes().split(b"\0")
        return False

    def start(self, count: int, tls_sasl: bool, parent, extra=()) -> None:
        if self.state is not None:
            raise Failure(f"{self.file} exists: restart that cluster, or take another directory")
        tls = self.directory / "tls" if tls_sasl else None
        if tls and not tls.exists():
            make_certificates(tls)
        for last in (False, False, True):
            self.lay_out(count, tls, parent)
            try:
                self.launch(self["brokers"], extra)
                return
            except BaseException as error:
                self.stop(None, signal.SIGKILL)
                self.file.unlink()
                if last or not isinstance(error, Failure) or "Address already in use" not in str(error):
                    raise
                for broker in self["brokers"]:
                    shutil.rmtree(self.directory / str(broker["id"]))

    def lay_out(self, count: int, tls, parent) -> None:
        """Ports, settings and formatted data of a new cluster."""
        ports, cluster_id = free_ports(3 * count), kafka_uuid()
        kinds = ("plain", "controller", "sasl")
        nodes = [{"id": n + 1, **dict(zip(kinds, ports[3 * n:]))} for n in range(count)]
        for node in nodes:
            place = self.directory / str(node["id"])
            if place.exists():
                raise Failure(f"{place} is in the way of a new cluster")
            shutil.copytree(home() / ("formatted-scram" if tls else "formatted"), place / "data")
            meta = f"version=1\ncluster.id={cluster_id}\nnode.id={node['id']}\ndirectory.id={kafka_uuid()}\n"
            (place / "data/meta.properties").write_text(meta)
            (place / "server.properties").write_text(server_properties(node["id"], nodes, place / "data", tls))
        addresses = {kind: ",".join(f"127.0.0.1:{node[kind]}" for node in nodes) for kind in kinds}
        brokers = [{"id": node["id"], "pid": None, "port": node["plain"], "log": f"{self.directory}/{node['id']}/broker.log"}
                   for node in nodes]
        self.state = {"bootstrap": addresses["plain"], "brokers": brokers, "cluster_id": cluster_id, "parent": parent}
        if tls:
            self.state |= {"sasl_bootstrap": addresses["sasl"], "ca": f"{tls}/ca.pem", "user": USER, "password": PASSWORD}
        self.write()

    def launch(self, brokers: list, extra=()) -> None:
        """Starts brokers and waits until each of them, asked, knows of all that run."""
        parent = self["parent"]
        if parent and process_identity(parent["pid"]) != parent:
            raise Failure(f"process {parent['pid']}, with which this cluster was to end, is gone")
        with locked(self.directory / "lock"):
            self.state = json.loads(self.file.read_text())
            logged = {}
            for broker in (broker for broker in self["brokers"] if broker["id"] in [b["id"] for b in brokers]):
                mapped = extra or [f"-XX:SharedArchiveFile={archive()}"]
                command = [java(), *JVM, *mapped, self.marker(broker["id"]), "-cp", class_path(), "kafka.Kafka",
                           f"{self.directory}/{broker['id']}/server.properties"]
                log = pathlib.Path(broker["log"])
                logged[broker["id"]] = log.stat().st_size if log.exists() else 0
                read, answer = os.pipe()
                if os.fork() == 0:
                    keep(command, log, parent, answer)
                os.close(answer)
                with open(read, "rb") as reader:
                    broker["pid"] = int(reader.read() or 0)
                self.write()
        deadline = time.monotonic() + READY
        for broker in self.chosen(None):
            if broker["id"] in logged:
                self.wait_ready(broker, deadline, logged[broker["id"]])

    def wait_ready(self, broker: dict, deadline: float, logged: int) -> None:
        """`logged` is how much its log had to say before this start."""
        while True:
            expected = {broker["id"]} | {other["id"] for other in self["brokers"] if self.runs(other)}
            with contextlib.suppress(OSError, struct.error):
                cluster_id, known = known_brokers(broker["port"])
                if cluster_id == self["cluster_id"] and expected <= known:
                    return
            why = "" if self.runs(broker) else "ended" if broker["pid"] else "did not start"
            if time.monotonic() > deadline:
                why = why or f"did not answer within {READY} s"
            if why:
                lines = pathlib.Path(broker["log"]).read_bytes()[logged:].decode(errors="replace").splitlines()
                told = [line for line in lines[:-15] if re.search("ERROR|Exception|Caused by", line)][-15:] + lines[-15:]
                raise Failure(f"broker {broker['id']} {why}; from {broker['log']}:\n" + "\n".join(told))
            time.sleep(0.02)

    def stop(self, node, how: signal.Signals, grace: float = GRACE) -> None:
        brokers = [broker for broker in self.chosen(node) if self.runs(broker)]
        self.signal(brokers, how)
        deadline = time.monotonic() + grace
        while any(self.runs(broker) for broker in brokers):
            if time.monotonic() > deadline:
                self.signal(brokers, signal.SIGKILL)
            if time.monotonic() > deadline + GRACE:
                raise Failure(f"still there after SIGKILL: {[broker['pid'] for broker in brokers]}")
            time.sleep(0.01)

    def signal(self, brokers: list, how: signal.Signals) -> None:
        for broker in brokers:
            with contextlib.suppress(ProcessLookupError):
                # The handle stays with the process that is looked at, even if its number goes to another.
                handle = os.pidfd_open(broker["pid"])
                if self.runs(broker):
                    signal.pidfd_send_signal(handle, how)
                os.close(handle)


def known_brokers(port: int) -> tuple:
    """Asks whoever listens for the metadata of no topic: the id of the cluster, and the brokers known to be in service."""
    request = struct.pack(">hhih4si", 3, 2, 1, 4, b"weir", 0)
    with socket.create_connection(("127.0.0.1", port), 1) as connection, connection.makefile("rb") as reader:
        connection.settimeout(5)
        connection.sendall(struct.pack(">i", len(request)) + request)
        answer = io.BytesIO(reader.read(struct.unpack(">i", reader.read(4))[0]))

    def take(form: str) -> tuple:
        return struct.unpack(form, answer.read(struct.calcsize(form)))

    def text() -> bytes:
        return answer.read(max(take(">h")[0], 0))

    _correlation, count = take(">ii")
    brokers = set()
    for _ in range(count):
        brokers.add(take(">i")[0])
        _host, _port, _rack = text(), take(">i"), text()
    return text().decode(), brokers
