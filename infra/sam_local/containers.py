"""Docker for `sam local`: the engine, an image of Lambda's runtime, and a way from a container to this machine."""

import os
import shutil
import socket
import socketserver
import subprocess
import tarfile
import tempfile
import threading
import time
from pathlib import Path

# What `sam local` runs functions of provided.al2023 in.
IMAGE = "public.ecr.aws/lambda/provided:al2023-x86_64"

# What SAM makes of it, with its emulator of the Runtime API. Later runs would take it for one that is made of AWS's.
SAMS_IMAGE = "public.ecr.aws/lambda/provided:al2023-rapid-x86_64"

PACKAGES = ["docker.io", "iptables"]

# What a bootstrap of Rust with glibc needs, and what resolves names.
LIBRARIES = [
    *["libc.so.6", "libm.so.6", "libgcc_s.so.1", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libresolv.so.2"],
    *["libnss_dns.so.2", "libnss_files.so.2"],
]

# What SAM's own steps in the image call, and what the function beside the layer is written in.
PROGRAMS = ["sh", "mv", "chmod", "mkdir", "cat", "bash"]
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")


class CannotRun(Exception):
    """Why Docker does not run on this machine."""


def quietly(*command: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess:
    return subprocess.run(command, capture_output=True, text=True, timeout=600, env=env, check=False)


class Engine:
    """Docker's engine: the one that runs, or one of its own until it is stopped."""

    def __init__(self) -> None:
        self.process: subprocess.Popen | None = None
        if quietly_runs():
            return
        self._install()
        self.log = Path(tempfile.mkdtemp(prefix="dockerd-")) / "log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(["dockerd"], stdout=log, stderr=log)
        deadline = time.monotonic() + 60
        while not quietly_runs():
            if self.process.poll() is not None or time.monotonic() > deadline:
                last = self.log.read_text().strip().splitlines()[-1:] or ["it says nothing"]
                self.stop()
                raise CannotRun(f"dockerd does not start: {last[0]}")
            time.sleep(0.2)

    @staticmethod
    def _install() -> None:
        if os.geteuid() != 0:
            raise CannotRun("no Docker engine answers, and only root can start one")
        if shutil.which("dockerd"):
            return
        if not shutil.which("apt-get"):
            raise CannotRun("dockerd is missing, and this machine has no apt-get to install it with")
        update = quietly("apt-get", "update")
        install = quietly("apt-get", "install", "--yes", "--no-install-recommends", *PACKAGES)
        if install.returncode != 0:
            raise CannotRun(f"{' '.join(PACKAGES)} cannot be installed: {(update.stderr + install.stderr).strip()}")

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(timeout=60)
            shutil.rmtree(self.log.parent)


def quietly_runs() -> bool:
    return shutil.which("docker") is not None and quietly("docker", "info").returncode == 0


class Image:
    """Lambda's image: the one that is here, else AWS's, else one made of this machine's programs and libraries until it is removed."""

    def __init__(self) -> None:
        self.is_own = False
        if quietly("docker", "image", "inspect", IMAGE).returncode == 0:
            self.origin = "the one on this machine"
        elif quietly("docker", "pull", "--quiet", IMAGE).returncode == 0:
            self.origin = "AWS's"
        else:
            self._make()
            self.is_own = True
            self.origin = "made of this machine's programs and libraries, as the registry does not answer"

    @staticmethod
    def _make() -> None:
        with tempfile.NamedTemporaryFile(suffix=".tar") as file:
            with tarfile.open(fileobj=file, mode="w") as tar:
                programs = {name: found(name) for name in PROGRAMS}
                linked = (library for program in programs.values() for library in linked_to(program))
                for library in sorted({*(Path("/lib/x86_64-linux-gnu", name) for name in LIBRARIES), *linked}):
                    tar.add(library.resolve(), arcname=str(library))
                for name, program in programs.items():
                    tar.add(program.resolve(), arcname=f"bin/{name}")
                tar.add(CERTIFICATES.resolve(), arcname="etc/pki/tls/certs/ca-bundle.crt")
                tar.add(CERTIFICATES.resolve(), arcname=str(CERTIFICATES))
            file.flush()
            changes = [
                "ENV PATH=/bin:/var/runtime LAMBDA_TASK_ROOT=/var/task LAMBDA_RUNTIME_DIR=/var/runtime TZ=:UTC",
                "WORKDIR /var/task",
                'ENTRYPOINT ["/var/task/bootstrap"]',
            ]
            options = [word for change in changes for word in ("--change", change)]
            imported = quietly("docker", "import", *options, file.name, IMAGE)
            if imported.returncode != 0:
                raise CannotRun(f"an image cannot be imported: {imported.stderr.strip()}")

    def remove(self) -> None:
        if self.is_own:
            quietly("docker", "image", "rm", "--force", IMAGE, SAMS_IMAGE)


def found(program: str) -> Path:
    where = shutil.which(program)
    if where is None:
        raise CannotRun(f"an image cannot be made: this machine has no {program}")
    return Path(where)


def linked_to(program: Path) -> list[Path]:
    """The libraries of a program, and its loader."""
    answer = quietly("ldd", str(program))
    # A program that is linked to nothing answers with an error.
    words = answer.stdout.split() if answer.returncode == 0 else []
    return [Path(word) for word in words if word.startswith("/")]


class Network:
    """A network whose containers reach servers of this machine's loopback at the network's gateway."""

    # Another run on this machine has another.
    NAME = f"dynashard-sam-local-{os.getpid()}"

    def __init__(self, ports: list[int]) -> None:
        made = quietly("docker", "network", "create", self.NAME)
        if made.returncode != 0:
            raise CannotRun(f"a network cannot be made: {made.stderr.strip()}")
        inspected = quietly("docker", "network", "inspect", self.NAME, "--format", "{{(index .IPAM.Config 0).Gateway}}")
        self.gateway = inspected.stdout.strip()
        self.forwarders = {port: Forwarder(self.gateway, port) for port in ports}

    def url_of(self, port: int) -> str:
        return f"http://{self.gateway}:{self.forwarders[port].port}"

    def remove(self) -> None:
        for forwarder in self.forwarders.values():
            forwarder.shutdown()
            forwarder.server_close()
        quietly("docker", "network", "rm", self.NAME)


class Forwarder(socketserver.ThreadingTCPServer):
    """Passes connections at an address of the network on to a port of the loopback, which containers cannot reach."""

    daemon_threads = True

    def __init__(self, address: str, port: int) -> None:
        super().__init__((address, 0), Forward)
        self.target = port
        self.port = self.server_address[1]
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Forward(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        with socket.create_connection(("127.0.0.1", self.server.target)) as server:
            back = threading.Thread(target=pass_on, args=(server, self.request), daemon=True)
            back.start()
            pass_on(self.request, server)
            back.join()


def pass_on(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65_536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass
