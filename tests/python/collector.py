"""A collector of OTLP over HTTP (JSON), which keeps what servers send, and answers with the status that a test sets."""
import http.server
import json
import threading


class Collector:
    """`status`: what it answers; `posts`: bodies that it took with 200; `refused`: how many it answered otherwise."""

    def __init__(self, port=0):
        self.status = 200
        self.posts, self.refused, self.problems = [], 0, []
        self.changed = threading.Condition()
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with collector.changed:
                    status = collector.status
                    if self.headers["Content-Type"] != "application/json" or self.path != "/v1/traces":
                        collector.problems.append((self.path, self.headers["Content-Type"]))
                    if status == 200:
                        collector.posts.append(json.loads(body))
                    else:
                        collector.refused += 1
                    collector.changed.notify_all()
                self.send_response(status)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    @property
    def url(self):
        return "http://127.0.0.1:%d" % self.port

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def spans(self):
        with self.changed:
            return [
                span
                for post in self.posts
                for resource in post["resourceSpans"]
                for scope in resource["scopeSpans"]
                for span in scope["spans"]
            ]

    def wait(self, holds, seconds=60):
        """Until holds() is true, which is looked at after each post; false: it was not, in all that time."""
        with self.changed:
            return self.changed.wait_for(holds, seconds)


class Tree:
    """The spans of one request."""

    def __init__(self, root, spans):
        self.root = root
        self.names = {}
        todo = [root]
        self.children = {}
        for parent in todo:
            for span in spans:
                if span["traceId"] == root["traceId"] and span.get("parentSpanId") == parent["spanId"]:
                    self.children.setdefault(parent["spanId"], []).append(span)
                    self.names[span["name"]] = span
                    todo.append(span)

    def attribute(self, key, span=None):
        for attribute in (span or self.root).get("attributes", []):
            if attribute["key"] == key:
                [(kind, value)] = attribute["value"].items()
                return int(value) if kind == "intValue" else value
        return None


def interval(span):
    return int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])


def trees(spans):
    """A tree per request: the spans of kind SERVER are the roots."""
    return [Tree(span, spans) for span in spans if span["kind"] == 2]
