"""What benchmarks of the server share: models made for them, and a server of their own."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
SERVES = re.compile(r"serving (\d+) of (\d+) models at (https?://\S+)")


def make_model(name, folder, *flags):
    """A folder of that name with the model and its settings; `flags` of scripts/make_models.py."""
    maker = [sys.executable, "-B", ROOT / "scripts" / "make_models.py", "--out", folder, "--only", name, *flags]
    subprocess.run([str(word) for word in maker], check=True, capture_output=True)
    return folder / name


def folder_of(folder, way):
    return folder / way.replace(" ", "_")


def make_ways(made, folder, ways):
    """A repository per way of serving the model, folder_of(folder, way), which share its files and its profile, if it has
    one. `ways`: what each adds to the model's settings."""
    file = made / "tutti.pbtxt"
    settings = file.read_text() + "\n" if file.exists() else ""
    for way, added in ways.items():
        model = folder_of(folder, way) / made.name
        model.mkdir(parents=True)
        (model / "1").symlink_to(made / "1")
        (model / "tutti.pbtxt").write_text(settings + added)
        for name in "profile.pbtxt", "config.pbtxt":
            if (made / name).exists():
                shutil.copy(made / name, model)


def in_turn(entries, number, of):
    """The entries, another part of them first in each of `of` rounds: a slow load comes to the first few only."""
    at = number * len(entries) // of
    return entries[at:] + entries[:at]


def rounds_of(ways, rounds, measure):
    """{way: [measure(way) of each round]}; within a round the ways follow each other."""
    found = {way: [] for way in ways}
    for number in range(rounds):
        for way in in_turn(list(ways), number, rounds):
            found[way].append(measure(way))
    return found


def cpu_seconds(pid):
    """Processor time of all threads of the process so far, of those that have ended, too."""
    return time.clock_gettime(~pid << 3 | 2)  # clock_getcpuclockid(3), which Python does not have


class Server:
    """`tutti serve` of a repository, all of whose models it serves: at `address`, http://HOST:PORT. `under`: what runs it,
    such as valgrind; `environment`: what it has beside ours."""

    def __init__(self, program, models, *flags, executors=1, under=(), environment=None):
        command = [*under, program, "serve", "--model-repository", models, "--http-port", "0", *flags]
        command += ["--executors", executors] if executors else []
        self.process = subprocess.Popen(
            [str(word) for word in command],
            stderr=subprocess.PIPE,
            text=True,
            env=dict(os.environ, **(environment or {})),
        )
        self.lines = []
        for line in self.process.stderr:
            self.lines.append(line)
            found = SERVES.search(line)
            if found:
                break
        if not found or found[1] != found[2]:
            self.process.kill()
            sys.exit("the server does not serve:\n" + "".join(self.lines))
        self.address = found[3]
        # A full pipe would block a server that logs much, and nothing else reads it.
        self.reader = threading.Thread(target=lambda: self.lines.extend(self.process.stderr), daemon=True)
        self.reader.start()

    def cpu_seconds(self):
        return cpu_seconds(self.process.pid)

    def microseconds(self, load, requests):
        """Our processor time per request of `load`, a command of `tutti load --json` that lacks --requests. The time of a short
        load is subtracted, so that its start does not count."""
        few, spent = 1000, []
        for count in few, few, few + requests:  # the first one for pages and caches
            before = self.cpu_seconds()
            command = [str(word) for word in (*load, "--duration", 600, "--requests", count)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            assert json.loads(done.stdout)["total"]["ok"] == count, done.stdout
            spent.append(self.cpu_seconds() - before)
        return (spent[2] - spent[1]) / requests * 1e6

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)
        self.reader.join()

    def said(self):
        return "".join(self.lines)
