#!/usr/bin/env python3
"""/openapi.json: what it says of each path is what the server answers."""
import http.client
import json
import os
import pathlib
import re
import signal
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from plain_client import Server  # noqa: E402

CONFIG = (
    'backend: "emulated" max_batch_size: 4 '
    'input { name: "x" data_type: TYPE_FP32 dims: 2 } '
    'output { name: "y" data_type: TYPE_FP32 dims: 2 } '
)
INFER = {"id": "7", "inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}]}
METHODS = ("get", "post", "put", "delete")
TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
}


class OpenApi(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.directory.cleanup)
        model = pathlib.Path(cls.directory.name, "models", "m")
        (model / "1").mkdir(parents=True)
        (model / "config.pbtxt").write_text(CONFIG)
        (model / "profile.pbtxt").write_text("linear { alpha_ms: 0.1 beta_ms: 0.1 }")
        cls.server = Server(model.parent, "--model-control-mode", "explicit", "--load-model", "m", "--shared-memory")
        cls.addClassCleanup(cls.server.end, signal.SIGTERM)
        cls.region = pathlib.Path("/dev/shm/tutti_openapi_%d" % os.getpid())
        cls.region.write_bytes(bytes(64))
        cls.addClassCleanup(cls.region.unlink)
        cls.document = json.loads(cls.ask("get", "/openapi.json")[2])

    @classmethod
    def ask(cls, method, path, body=None):
        client = http.client.HTTPConnection(cls.server.address, timeout=30)
        client.request(method.upper(), path, None if body is None else json.dumps(body))
        answer = client.getresponse()
        out = answer.status, answer.getheader("Content-Type", ""), answer.read().decode()
        client.close()
        return out

    def schema(self, schema):
        if "$ref" not in schema:
            return schema
        found = self.document
        for part in schema["$ref"].lstrip("#/").split("/"):
            found = found[part]
        return found

    def matches(self, schema, value, where):
        schema = self.schema(schema)
        if "type" in schema:
            self.assertIsInstance(value, TYPES[schema["type"]], where)
            if schema["type"] in ("integer", "number"):
                self.assertNotIsInstance(value, bool, where)
        if "enum" in schema:
            self.assertIn(value, schema["enum"], where)
        for key in schema.get("required", ()):
            self.assertIn(key, value, where)
        for key, inner in schema.get("properties", {}).items():
            if isinstance(value, dict) and key in value:
                self.matches(inner, value[key], where + "." + key)
        if isinstance(value, list):
            for number, item in enumerate(value):
                self.matches(schema.get("items", {}), item, "%s[%d]" % (where, number))

    def answered(self, method, path, url, body=None):
        """Asks, and compares with the document; returns the status."""
        status, kind, text = self.ask(method, url, body)
        where = "%s %s: %d %s" % (method, url, status, text[:200])
        responses = self.document["paths"][path][method]["responses"]
        self.assertIn(str(status), responses, where)
        content = responses[str(status)].get("content")
        if content is None:
            self.assertEqual(text, "", where)
            return status
        (expected, described), = content.items()
        self.assertTrue(kind.startswith(expected), where + kind)
        if expected == "application/json":
            value = json.loads(text)
            self.matches(described["schema"], value, where)
            if status == 200 and isinstance(value, dict) and "$ref" in described["schema"]:
                # The document names what is there.
                schema = self.schema(described["schema"])
                named = schema.get("properties", {})
                if "Config" not in described["schema"]["$ref"] and named and not schema.get("additionalProperties"):
                    self.assertLessEqual(set(value), set(named), where)
        return status

    def test_every_path_answers_as_described(self):
        region = {"key": "/" + self.region.name, "byte_size": 64}
        generate = {"id": "7", "x": [1, 2]}
        bodies = {"/infer": INFER, "/generate": generate, "/generate_stream": generate, "/register": region, "/index": {}, "/logging": {"log_verbose_level": 0}, "/setting": {}}
        order = sorted(self.document["paths"], key=lambda path: (path.endswith("/unload"), path))
        for path in order:
            for method, operation in self.document["paths"][path].items():
                url = path.replace("{model}", "m").replace("{version}", "1").replace("{region}", "r")
                body = next((b for end, b in bodies.items() if path.endswith(end)), {} if method == "post" else None)
                self.assertEqual("requestBody" in operation, method == "post", path)
                with self.subTest(method=method, path=path):
                    self.assertEqual(self.answered(method, path, url, body), 200)
        self.assertEqual(self.ask("post", "/v2/repository/models/m/load", {})[0], 200)

    def test_errors_are_described(self):
        for method, path, url, body in (
            ("get", "/v2/models/{model}", "/v2/models/no", None),
            ("get", "/v2/models/{model}/versions/{version}", "/v2/models/m/versions/9", None),
            ("get", "/v2/models/{model}/config", "/v2/models/no/config", None),
            ("get", "/v2/models/{model}/stats", "/v2/models/no/stats", None),
            ("get", "/v2/models/{model}/ready", "/v2/models/no/ready", None),
            ("post", "/v2/models/{model}/infer", "/v2/models/no/infer", INFER),
            ("post", "/v2/models/{model}/infer", "/v2/models/m/infer", {"inputs": []}),
            ("post", "/v2/models/{model}/generate", "/v2/models/m/generate", {}),
            ("post", "/v2/models/{model}/generate_stream", "/v2/models/no/generate_stream", {}),
            ("get", "/v2/systemsharedmemory/region/{region}/status", "/v2/systemsharedmemory/region/no/status", None),
            ("post", "/v2/systemsharedmemory/region/{region}/register", "/v2/systemsharedmemory/region/r/register", {}),
            ("post", "/v2/repository/models/{model}/load", "/v2/repository/models/no/load", {}),
            ("post", "/v2/repository/index", "/v2/repository/index", {"ready": 1}),
            ("post", "/v2/logging", "/v2/logging", {"log_info": "yes"}),
            ("get", "/v2/debug/trace", "/v2/debug/trace?seconds=x", None),
        ):
            with self.subTest(url=url):
                self.assertGreaterEqual(self.answered(method, path, url, body), 400)

    def test_no_other_method_is_served(self):
        for path, operations in self.document["paths"].items():
            url = path.replace("{model}", "m").replace("{version}", "1").replace("{region}", "r")
            for method in set(METHODS) - set(operations):
                if (method, path) == ("post", "/v2/models/{model}/trace/setting"):
                    continue  # as /v2/trace/setting
                with self.subTest(method=method, path=path):
                    self.assertEqual(self.ask(method, url, {})[0], 405)

    def test_the_paths_of_the_root_are_in_it(self):
        named = re.findall(r"(?m)^(GET|POST) +(/\S*)", self.ask("get", "/")[2])
        self.assertGreater(len(named), 8)
        for method, url in named:
            path = url.split("?")[0].replace("NAME", "{model}")
            self.assertIn(method.lower(), self.document["paths"].get(path, ()), path)

    def test_identifiers(self):
        operations = [o for path in self.document["paths"].values() for o in path.values()]
        names = [o["operationId"] for o in operations]
        self.assertEqual(len(names), len(set(names)))
        for path, operations in self.document["paths"].items():
            for operation in operations.values():
                given = {p["name"] for p in operation.get("parameters", ()) if p["in"] == "path"}
                self.assertEqual(given, set(re.findall(r"{(\w+)}", path)), path)


if __name__ == "__main__":
    unittest.main()
