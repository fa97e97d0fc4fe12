"""Network namespaces for a test that cuts nodes off: one for each, all on a bridge, without privileges. The test itself runs
in the namespace of the bridge, where it reaches every node."""
import os
import subprocess
import sys
import time

from needs import skip

INSIDE = "TUTTI_IN_A_NAMESPACE"
NOBODY = "02:de:ad:00:00:01"  # no interface has this address


def enter():
    """Starts the test's file again in a namespace of its own; skips it where the machine allows none."""
    if os.environ.get(INSIDE):
        ip("link", "set", "lo", "up")
        ip("link", "add", "bridge", "type", "bridge")
        ip("address", "add", "10.77.255.254/16", "dev", "bridge")
        ip("link", "set", "bridge", "up")
        return
    try:
        tried = subprocess.run(
            ["unshare", "-rn", "ip", "link", "add", "bridge", "type", "bridge"], capture_output=True, text=True, timeout=30)  # fmt: skip
        said = tried.stderr if tried.returncode else ""
    except OSError as error:
        said = str(error)
    if said:
        skip("no network namespaces here: " + said.strip())
    os.environ[INSIDE] = "1"
    os.execvp("unshare", ["unshare", "-rn", sys.executable, *sys.argv])


def ip(*words):
    subprocess.run(["ip", *words], check=True, timeout=30)


class Namespaces:
    """The nodes' namespaces. Those of each object have addresses and cables of their own: the system takes its time to remove
    a namespace."""

    made = 0

    def __init__(self):
        Namespaces.made += 1
        self.number = Namespaces.made
        self.holders, self.numbers = {}, {}

    def address(self, name):
        """Makes the namespace at the first call."""
        if name not in self.numbers:
            self.numbers[name] = len(self.numbers) + 1
            self.make(name)
        return "10.77.%d.%d" % (self.number, self.numbers[name])

    def make(self, name):
        holder = self.holders[name] = subprocess.Popen(
            ["unshare", "-n", "cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)  # ends with this process
        while os.readlink("/proc/%d/ns/net" % holder.pid) == os.readlink("/proc/self/ns/net"):
            time.sleep(0.01)
        ip("link", "add", self.cable(name), "type", "veth", "peer", "name", "eth0", "netns", str(holder.pid))
        ip("link", "set", self.cable(name), "master", "bridge", "up")
        for words in ("link set lo up", "address add %s/16 dev eth0" % self.address(name), "link set eth0 up"):
            self.run_ip(name, words)

    def cable(self, name):
        return "cable%d-%s" % (self.number, name)

    def inside(self, name, command):
        return ["nsenter", "--net=/proc/%d/ns/net" % self.holders[name].pid, *command]

    def run_ip(self, name, words):
        subprocess.run(self.inside(name, ["ip", *words.split()]), check=True, timeout=30)

    def unplug(self, name):
        ip("link", "set", self.cable(name), "down")

    def plug(self, name):
        ip("link", "set", self.cable(name), "up")

    def cut(self, one, other):
        """Nothing passes between the two, without a word; all else does."""
        for here, there in ((one, other), (other, one)):
            self.run_ip(here, "neighbour replace %s lladdr %s nud permanent dev eth0" % (self.address(there), NOBODY))

    def mend(self, one, other):
        for here, there in ((one, other), (other, one)):
            self.run_ip(here, "neighbour del %s dev eth0" % self.address(there))

    def abort_links(self, here, there):
        """The system of the one gives its connections to the other up, whatever their age. False: it cannot, or there are none."""
        command = self.inside(here, ["ss", "--kill", "--no-header", "--tcp", "dst", self.address(there)])
        return bool(subprocess.run(command, check=True, capture_output=True, timeout=30).stdout)

    def end(self):
        for holder in self.holders.values():
            holder.stdin.close()
            holder.wait()
