"""A headless Chromium that tests drive over a pipe: the DevTools protocol with the standard library alone."""
import base64
import fcntl
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time


def find():
    """The browser's path, or None."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def _high(fd):
    """The same descriptor under a number that the child's 3 and 4 do not collide with."""
    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(fd)
    return moved


class Browser:
    """One page at a time; `errors` holds what its scripts and its console reported."""

    def __init__(self):
        child_in, self.to = map(_high, os.pipe())
        self.back, child_out = map(_high, os.pipe())
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)

        def give_pipes():
            os.dup2(child_in, 3)
            os.dup2(child_out, 4)

        self.process = subprocess.Popen(
            [find(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-extensions", "--disable-background-networking", "--remote-debugging-pipe",
             "--user-data-dir=" + self.folder.name, "about:blank"],
            close_fds=False, preexec_fn=give_pipes, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(child_in)
        os.close(child_out)
        self.number, self.buffer, self.session, self.errors, self.loaded = 0, b"", None, [], False
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(domain + ".enable")

    def close(self):
        self.process.terminate()
        self.process.wait()
        os.close(self.to)
        os.close(self.back)
        self.folder.cleanup()

    def _read(self):
        while b"\0" not in self.buffer:
            got = os.read(self.back, 1 << 20)
            if not got:
                raise RuntimeError("the browser has ended")
            self.buffer += got
        line, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(line)
        method, about = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = about["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Log.entryAdded" and about["entry"]["level"] == "error":
            self.errors.append(about["entry"]["text"])
        elif method == "Page.loadEventFired":
            self.loaded = True
        return message

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError("%s: %s" % (method, answer["error"]["message"]))
                return answer["result"]

    def open(self, path, width=1280, height=900, dark=False):
        """Loads a file, or a page of a server, as on a screen of that width, and waits until it is drawn."""
        self.resize(width, height, dark)
        self.errors, self.loaded = [], False
        is_url = str(path).startswith("http://")
        self.call("Page.navigate", url=path if is_url else pathlib.Path(path).absolute().as_uri())
        until = time.monotonic() + 60
        while not self.loaded and time.monotonic() < until:
            self._read()
        self.frames()

    def resize(self, width, height=900, dark=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def frames(self):
        """Two frames: sizes are observed, then charts drawn."""
        self.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def value(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"].get("exception", {}).get("description", "?"))
        return result["result"].get("value")

    def screenshot(self, path, whole=True):
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 8000), "scale": 1}
        got = self.call("Page.captureScreenshot", captureBeyondViewport=whole, **({"clip": clip} if whole else {}))
        pathlib.Path(path).write_bytes(base64.b64decode(got["data"]))
