"""A server of a test's own."""
import atexit
import pathlib
import re
import signal
import socket
import subprocess
import threading

# The last line of a start: a reader of it may count what comes after.
READY = re.compile(r"try: curl .*?https?://(127\.0\.0\.1:\d+)")


_reservations = []


def free_port():
    """A port that the system gives to no other socket while this process lives. A server that sets
    SO_REUSEADDR, as ours and most others do, can listen there: the socket here never listens."""
    reservation = socket.socket()
    reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reservation.bind(("127.0.0.1", 0))
    _reservations.append(reservation)
    return reservation.getsockname()[1]


def is_read(client):
    """The server on this machine has read all that this client, a socket, has sent."""
    ours, theirs = client.getsockname()[1], client.getpeername()[1]
    lines = [line.split() for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]]
    queues = {tuple(int(end.split(":")[1], 16) for end in line[1:3]): line[4].split(":") for line in lines}
    not_acknowledged, not_read = queues[ours, theirs][0], queues[theirs, ours][1]
    return int(not_acknowledged, 16) + int(not_read, 16) == 0


class Server:
    """One server process; its standard error is read by a thread, which finds the address."""

    def __init__(self, command):
        self.lines = []
        self.address = None
        self._told = threading.Event()
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace"
        )
        atexit.register(self.process.kill)  # of a test that failed; what has ended is not touched
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stderr:
            self.lines.append(line)
            found = READY.search(line)
            if found and not self.address:
                self.address = found.group(1)
                self._told.set()
        self._told.set()

    def wait_ready(self, timeout):
        return self._told.wait(timeout) and self.address is not None

    def exit_code_if_gone(self):
        """None while it runs; one that has closed its standard error is given time to end."""
        try:
            return self.process.wait(5 if self._told.is_set() else 0)
        except subprocess.TimeoutExpired:
            return None

    def stop(self, timeout):
        """Its exit code after SIGTERM; None when it had to be killed."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            code = None
        self._reader.join(10)
        self.process.stderr.close()
        return code

    def said(self):
        if self.process.poll() is not None:
            self._reader.join(30)  # its last words may still be on their way
        return "the server's last words:\n  " + "  ".join(self.lines[-40:] or ["(nothing)\n"])
