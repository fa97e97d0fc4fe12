"""A test with an /etc/hosts of its own, in a mount namespace of its own, for names that container platforms would give."""
import os
import subprocess
import sys

import needs

INSIDE = "TUTTI_TEST_IN_NAMESPACE"


def enter(*more):
    """Runs the program again in a new mount namespace; where this user may not make one, it ends as skipped. `more`: of unshare."""
    if INSIDE in os.environ:
        return
    unshare = ["unshare", *(["--map-root-user"] if os.geteuid() != 0 else []), "--mount", *more]
    try:
        trial = subprocess.run([*unshare, "mount", "--bind", "/etc/hosts", "/etc/hosts"], capture_output=True, text=True, timeout=60)
        refusal = trial.stderr if trial.returncode else ""
    except OSError as error:
        refusal = str(error)
    if refusal:
        needs.skip("no mount namespace: " + refusal)
    os.environ[INSIDE] = "1"
    os.execvp(unshare[0], [*unshare, sys.executable, "-B", *sys.argv])


class Hosts:
    """/etc/hosts, as long as the test runs. `path`: a file for it."""

    def __init__(self, path, test):
        self.path, self.where = path, {}
        path.write_text("127.0.0.1 localhost\n")
        subprocess.run(["mount", "--bind", str(path), "/etc/hosts"], check=True, timeout=60)
        test.addCleanup(subprocess.run, ["umount", "/etc/hosts"], check=True, timeout=60)

    def put(self, name, address):
        self.where[name] = address
        lines = ["%s %s\n" % (address, name) for name, address in self.where.items()]
        with open(self.path, "r+") as file:  # in place: this file is the one that is mounted
            file.write("127.0.0.1 localhost\n" + "".join(lines))
            file.truncate()
