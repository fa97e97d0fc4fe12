"""Slurm of three nodes for a test: one controller and three slurmd on this machine. What scripts/setup.sh --slurm unpacked.

It does without authentication, so it listens on the loopback only. Its steps leave their parents: run it in a PID namespace.
"""
import os
import pathlib
import subprocess

from cluster_process import await_true
from server_process import free_port

ROOT = pathlib.Path(__file__).resolve().parents[2] / ".deps" / "slurm" / "usr"
CONFIG = """
ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=%(port)d
AuthType=auth/none
CredType=cred/none
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SlurmUser=root
SlurmctldPidFile=%(folder)s/slurmctld.pid
SlurmdPidFile=%(folder)s/%%n.pid
StateSaveLocation=%(folder)s/state
SlurmdSpoolDir=%(folder)s/spool-%%n
PluginDir=%(plugins)s
CommunicationParameters=NoAddrCache
%(nodes)s
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def is_there():
    return (ROOT / "sbin" / "slurmctld-wlm").exists()


class Slurm:
    """`nodes`: {name: address}, on the loopback."""

    def __init__(self, folder, nodes):
        self.folder, self.processes = folder, []
        (libraries,) = (ROOT / "lib").glob("*-linux-gnu")
        plugins = libraries / "slurm-wlm"
        lines = [
            "NodeName=%s NodeHostname=localhost NodeAddr=%s Port=%d CPUs=2 State=UNKNOWN" % (name, address, free_port())
            for name, address in nodes.items()
        ]
        config = folder / "slurm.conf"
        config.write_text(CONFIG % {"port": free_port(), "folder": folder, "plugins": plugins, "nodes": "\n".join(lines)})
        self.environment = dict(
            os.environ, SLURM_CONF=str(config), LD_LIBRARY_PATH="%s:%s" % (libraries, plugins), PATH="%s:%s" % (ROOT / "bin", os.environ["PATH"])
        )
        for name in ("state", *("spool-" + node for node in nodes)):
            (folder / name).mkdir()
        self.start("slurmctld-wlm", "slurmctld", "-i")
        for node in nodes:
            self.start("slurmd-wlm", node, "-N", node, "-d", str(ROOT / "sbin" / "slurmstepd-wlm"))
        await_true(lambda: set(self.run("sinfo", "-h", "-N", "-o", "%N %T").stdout.split("\n")) - {""} == {n + " idle" for n in nodes}, 120, self.said)

    def start(self, program, name, *arguments):
        with open(self.folder / (name + ".log"), "ab") as log:
            command = [str(ROOT / "sbin" / program), "-D", *arguments]
            self.processes.append(subprocess.Popen(command, env=self.environment, stdout=log, stderr=log))

    def run(self, *command, **more):
        return subprocess.run(command, env=dict(self.environment, **more), cwd=self.folder, capture_output=True, text=True, timeout=120)

    def said(self):
        return "\n".join("%s:\n%s" % (path.name, path.read_text()[-2000:]) for path in sorted(self.folder.glob("**/*.log")))

    def stop(self):
        for process in self.processes:
            process.kill()
            process.wait()
