"""A stand-in for the API server of Kubernetes: the scale subresource of StatefulSets, over HTTPS.

It does what the real one documents: GET answers a Scale object with a resourceVersion; PATCH with a merge patch changes the
number of replicas, and refuses with 409 if the patch has another resourceVersion; a wrong token gets 401, what is not there 404."""
import http.server
import json
import shutil
import ssl
import threading

PATH = "/apis/apps/v1/namespaces/%s/statefulsets/%s/scale"


class KubernetesApi:
    def __init__(self, certificates, account, sets, namespace="tutti"):
        """account: a folder that gets what a pod finds; sets: {name of a StatefulSet: replicas}"""
        self.namespace, self.replicas, self.version = namespace, dict(sets), 1000
        self.requests, self.refusal = [], None  # refusal: (status, message) of every PATCH
        self.before_patch = None  # called before a PATCH is looked at
        self.lock = threading.Lock()
        account.mkdir()
        shutil.copy(certificates.path("ca.pem"), account / "ca.crt")
        (account / "namespace").write_text(namespace)
        self.account = account
        self.renew("first." + "x" * 1200)  # as long as real ones
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler_of(self))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificates.make("kubernetes"))
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.url = "https://127.0.0.1:%d" % self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def renew(self, token):
        """Tokens expire; a pod finds the next one in the same file."""
        self.token = token
        (self.account / "token").write_text(token)

    def stop(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def set(self, name, replicas):
        """As `kubectl scale`."""
        with self.lock:
            self.replicas[name], self.version = replicas, self.version + 1

    def patches(self):
        with self.lock:
            return [body["spec"]["replicas"] for method, body in self.requests if method == "PATCH"]

    def answer(self, method, path, token, kind, body):
        """The status and the object."""
        if method == "PATCH" and self.before_patch:
            self.before_patch()
        with self.lock:
            self.requests.append((method, body))
            if token != "Bearer " + self.token:
                return self.status(401, "Unauthorized")
            found = [name for name in self.replicas if path == PATH % (self.namespace, name)]
            if not found:
                return self.status(404, "%s not found" % path)
            name = found[0]
            if method == "PATCH":
                if kind != "application/merge-patch+json":
                    return self.status(415, "the body of the request was in an unknown format")
                if self.refusal:
                    return self.status(*self.refusal)
                version = body.get("metadata", {}).get("resourceVersion")
                if version is not None and version != str(self.version):
                    return self.status(409, "the object has been modified; please apply your changes to the latest version")
                self.version += 1
                self.replicas[name] = body["spec"]["replicas"]
            spec = {"replicas": self.replicas[name]} if self.replicas[name] else {}  # zeros are left out
            return 200, {"kind": "Scale", "apiVersion": "autoscaling/v1", "spec": spec,
                         "metadata": {"name": name, "namespace": self.namespace, "resourceVersion": str(self.version)},
                         "status": {"replicas": self.replicas[name]}}  # fmt: skip

    def status(self, code, message):
        return code, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code}


def handler_of(api):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def serve(self):
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            token, kind = self.headers.get("Authorization"), self.headers.get("Content-Type")
            code, answer = api.answer(self.command, self.path, token, kind, body)
            text = json.dumps(answer).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_PATCH = serve

        def log_message(self, *words):
            pass

    return Handler
