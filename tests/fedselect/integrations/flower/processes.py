"""A real federation on this machine: one SuperLink, SuperNodes, and ``flwr run``, each a process that is stopped."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

#: Flower reports home, looks for updates and builds an environment for every run, unless told not to.
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "OMP_NUM_THREADS": "1",
}
BIN = Path(sys.executable).parent

#: The how-to, whose commands make the keys and certificates of an encrypted federation.
HOW_TO = Path(__file__).parents[4] / "docs" / "how_to" / "flower.md"


def environment(home: Path) -> dict[str, str]:
    """The environment of Flower's processes: quiet, at home in ``home``, with this interpreter's programs."""
    paths = [str(Path(part).resolve()) for part in sys.path if part]
    return (
        os.environ
        | QUIET
        | {
            "FLWR_HOME": str(home),
            "PYTHONPATH": os.pathsep.join(paths),
            "PATH": os.pathsep.join((str(BIN), os.environ["PATH"])),
        }
    )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def how_to_commands(program: str) -> Iterator[list[str]]:
    """Yield the commands of a program that the how-to gives, as lists of words."""
    for line in HOW_TO.read_text(encoding="utf-8").replace("\\\n", " ").splitlines():
        if line.startswith(f"{program} "):
            yield shlex.split(line, comments=True)


def descendants(pid: int) -> Iterator[int]:
    """Processes that ``pid`` started, and those that they started; Flower gives them sessions of their own."""
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # a thread may end while its file is read
            for child in map(int, children.read_text().split()):
                yield child
                yield from descendants(child)


def kill(process: subprocess.Popen) -> None:
    """``kill -9`` a process and all that it started, as a power cut would."""
    for pid in (process.pid, *descendants(process.pid)) if process.poll() is None else ():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


class Federation:
    """Processes of a federation; leaving the block kills whatever is left of them.

    Parameters
    ----------
    folder : pathlib.Path
        For Flower's home and the processes' output, one file each.
    encrypted : bool
        With TLS, by a certificate of its own authority, and for nodes with a registered key alone: as the how-to says.
    """

    def __init__(self, folder: Path, *, encrypted: bool = False) -> None:
        self.folder, self.port, self.encrypted = folder, free_port(), encrypted
        self.home = folder / "home"
        self.home.mkdir()
        secured = f'root-certificates = "{folder / "ca.crt"}"' if encrypted else "insecure = true"
        (self.home / "config.toml").write_text(
            f'[superlink]\ndefault = "here"\n\n[superlink.here]\naddress = "127.0.0.1:{self.port}"\n{secured}\n'
        )
        self._processes: list[subprocess.Popen] = []
        for command in how_to_commands("openssl") if encrypted else ():
            subprocess.run(command, cwd=folder, check=True, capture_output=True)

    def __enter__(self) -> Federation:
        return self

    def __exit__(self, *exception: object) -> None:
        for process in self._processes:
            kill(process)

    def start(self, name: str, program: str, *arguments: object) -> subprocess.Popen:
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [str(BIN / program), *map(str, arguments)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment(self.home),
                cwd=self.folder,
            )
        self._processes.append(process)
        return process

    def superlink(self) -> subprocess.Popen:
        """Start it and wait until it listens; a database lets the nodes outlive it (without one they are strangers)."""
        address = ("--host", "127.0.0.1", "--port", self.port)
        secured: tuple[str, ...] = ("--insecure",)
        if self.encrypted:
            secured = ("--ssl-certfile", "server.crt", "--ssl-keyfile", "server.key", "--ssl-ca-certfile", "ca.crt")
            secured += ("--enable-supernode-auth",)
        process = self.start(
            "superlink", "flower-superlink", *secured, *address, "--database", self.folder / "state.db"
        )
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return process
            time.sleep(0.1)
        raise AssertionError(f"the SuperLink does not listen\n{self.logs()}")

    def supernode(self, client: int, clients: int, *, registered: bool = True) -> subprocess.Popen:
        """Start the node of a client; of an encrypted federation with a key, which may be one nobody registered."""
        secured: tuple[str, ...] = ("--insecure",)
        if self.encrypted:
            key = f"node{client}" if registered else "stranger"
            for command in how_to_commands("ssh-keygen"):
                made = [key if part == "node0" else part for part in command]
                subprocess.run(made, cwd=self.folder, check=True, capture_output=True)
            if registered:
                assert self.start("register", "flwr", "supernode", "register", f"{key}.pub", "here").wait() == 0
            secured = ("--root-certificates", "ca.crt", "--auth-supernode-private-key", key)
        return self.start(
            f"supernode-{client}",
            "flower-supernode",
            *(*secured, "--superlink", f"127.0.0.1:{self.port}", "--host", "127.0.0.1", "--port", free_port()),
            *("--node-config", f"partition-id={client} num-partitions={clients}"),
        )

    def run(self, app: Path) -> subprocess.Popen:
        return self.start("run", "flwr", "run", app, "here", "--stream")

    def logs(self) -> str:
        """The end of what each process had to say, for the message of a test that fails."""
        return "\n".join(f"--- {log.name}\n{log.read_text()[-2000:]}" for log in sorted(self.folder.glob("*.log")))
