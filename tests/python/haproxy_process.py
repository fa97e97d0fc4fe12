"""HAProxy before the frontends of a cluster, by packaging/haproxy.cfg as it is. What scripts/setup.sh --haproxy unpacked."""
import os
import pathlib
import subprocess

from needs import find_program
from server_process import free_port

CONFIG = pathlib.Path(__file__).resolve().parents[2] / "packaging" / "haproxy.cfg"


def find_haproxy():
    """The program; None: it is not there."""
    return find_program("haproxy/haproxy")


class Haproxy:
    """As a Server: `address`, `grpc_address` and `process`; `frontends` and `grpc_frontends` are two addresses each."""

    def __init__(self, frontends, grpc_frontends, log):
        self.address, self.grpc_address = ("127.0.0.1:%d" % free_port() for _ in range(2))
        variables = {"TUTTI_PROXY": self.address, "TUTTI_PROXY_GRPC": self.grpc_address}
        for number, (http, grpc) in enumerate(zip(frontends, grpc_frontends), 1):
            variables["TUTTI_FRONTEND_%d" % number], variables["TUTTI_GRPC_%d" % number] = http, grpc
        self.log = log
        with open(log, "ab") as out:
            self.process = subprocess.Popen(
                [find_haproxy(), "-f", str(CONFIG)], env=dict(os.environ, **variables), stdout=out, stderr=out
            )

    def said(self):
        return self.log.read_text()
