"""Dask workers in network namespaces of this machine, joined by a bridge, so that links can be
slowed or cut.  Needs root and
Linux's `ip` and `tc`."""

from __future__ import annotations

import subprocess
import sys
from types import TracebackType

from distributed import Client, LocalCluster


def sh(command: str, **more: bool) -> None:
    """A command that must succeed, unless ``check`` says otherwise."""
    subprocess.run(command.split(), **{"check": True, "capture_output": True, **more})


class Namespaces:
    """A scheduler on the bridge, and ``members`` workers of one thread, each in a namespace of its
    own.

    client   of the scheduler, in this process

    Parameters
    ----------
    number
        Tells this network from others that are there at the same time: its addresses are
        10.77.number.*.
    """

    def __init__(self, members: int, number: int = 0) -> None:
        self.members = range(members)
        self.network = f"10.77.{number}"
        self.bridge = f"topics{number}"

    def __enter__(self) -> Namespaces:
        self._remove()
        sh(f"ip link add {self.bridge} type bridge")
        sh(f"ip addr add {self.network}.1/24 dev {self.bridge}")
        sh(f"ip link set {self.bridge} up")
        for i in self.members:
            sh(f"ip netns add {self.bridge}-{i}")
            sh(f"ip link add {self.bridge}-{i} type veth peer name wire netns {self.bridge}-{i}")
            sh(f"ip link set {self.bridge}-{i} master {self.bridge} up")
            sh(f"ip -n {self.bridge}-{i} addr add {self.network}.{i + 2}/24 dev wire")
            sh(f"ip -n {self.bridge}-{i} link set wire up")
            sh(f"ip -n {self.bridge}-{i} link set lo up")
        self._made = LocalCluster(n_workers=0, host=f"{self.network}.1", dashboard_address=":0")
        self.client = Client(self._made)
        self.address = self._made.scheduler_address
        self._workers = [self._start(i) for i in self.members]
        self.client.wait_for_workers(len(self.members), timeout=120)
        return self

    def _start(self, i: int) -> subprocess.Popen[bytes]:
        options = f"--nthreads 1 --memory-limit 0 --no-dashboard --host {self.network}.{i + 2}"
        command = (
            f"ip netns exec {self.bridge}-{i} {sys.executable} -m dask worker {self.address} "
            f"{options}"
        )
        return subprocess.Popen(
            command.split(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def slow(self, rate: float | None) -> None:
        """Limit what each link carries, in each direction, to so many bytes a second; None: to
        nothing.
        """
        for i in self.members:
            for where in (
                f"tc qdisc {{}} dev {self.bridge}-{i} root",
                f"tc -n {self.bridge}-{i} qdisc {{}} dev wire root",
            ):
                sh(where.format("del"), check=False)
                if rate is not None:
                    # two milliseconds at once: more would carry what is sent between two pauses for
                    # nothing
                    sh(
                        where.format("add")
                        + f" tbf rate {rate:.0f}bps burst {rate / 500:.0f} latency 100ms"
                    )

    def link(self, i: int, up: bool) -> None:
        """Connect a worker, or cut it off."""
        sh(f"ip link set {self.bridge}-{i} {'up' if up else 'down'}")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for worker in self._workers:
            worker.terminate()
        self.client.close()
        self._made.close()
        for worker in self._workers:
            worker.wait()
        self._remove()

    def _remove(self) -> None:
        for i in self.members:
            sh(f"ip netns del {self.bridge}-{i}", check=False)
            sh(f"ip link del {self.bridge}-{i}", check=False)
        sh(f"ip link del {self.bridge}", check=False)
