#!/usr/bin/env python3
"""packaging/kubernetes: valid by the published schemas, and true of this program: flags, ports, routes, names, metrics.

Objects of the core are validated by Kubernetes's schemas. Those of KServe and KEDA have schemas in their definitions, which no
package has: TUTTI_CRDS names a folder with them; without it their parts that are of the core are validated, and their references.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest
import urllib.request

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

import needs  # noqa: E402

needs.need("yaml", "kubernetes_validate")
import jsonschema  # noqa: E402
import kubernetes_validate  # noqa: E402
import manifests  # noqa: E402
import yaml  # noqa: E402
from manifests import FOLDER, ROLES, container_of, objects, of_kind  # noqa: E402

PROGRAM = os.environ["TUTTI_PROGRAM"]
RELEASES = ("1.27", "1.37")
CORE = ("v1", "apps/v1", "policy/v1", "networking.k8s.io/v1")
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")


def validate(entry):
    for release in RELEASES:
        kubernetes_validate.validate(entry, release, strict=True)


def strict(schema):
    """The same schema, in which objects with known fields have no others."""
    if isinstance(schema, dict):
        schema = {key: strict(value) for key, value in schema.items()}
        if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
            schema.setdefault("additionalProperties", False)
    elif isinstance(schema, list):
        schema = [strict(value) for value in schema]
    return schema


def arguments_of(entry):
    return dict(argument.removeprefix("--").partition("=")[::2] for argument in container_of(entry)["args"])


class Schemas(unittest.TestCase):
    def test_objects_of_the_core(self):
        for entry in objects("base"):
            with self.subTest(kind=entry["kind"], name=entry["metadata"]["name"]):
                self.assertIn(entry["apiVersion"], CORE)
                validate(entry)

    def test_objects_of_scaling(self):
        for entry in objects("scale"):
            with self.subTest(kind=entry["kind"], name=entry["metadata"]["name"]):
                validate(entry)
        validate(self.patched())

    def patched(self):
        """The StatefulSet of the schedulers as the overlay changes it."""
        entry = json.loads(json.dumps(manifests.stateful_sets()["scheduler"]))
        (patch,) = manifests.kustomization("scale")["patches"]
        self.assertEqual((patch["target"]["kind"], patch["target"]["name"]), (entry["kind"], entry["metadata"]["name"]))
        for change in yaml.safe_load(patch["patch"]):
            *path, last = change["path"].strip("/").split("/")
            at = entry
            for key in path:
                at = at[int(key) if isinstance(at, list) else key]
            self.assertEqual(change["op"], "replace" if isinstance(at, dict) and last in at else "add")
            if last == "-":
                at.append(change["value"])
            else:
                at[last] = change["value"]
        return entry

    def test_schedulers_may_do_what_they_are_told(self):
        entry, found = self.patched(), objects("scale")
        pod, arguments = entry["spec"]["template"]["spec"], arguments_of(entry)
        self.assertIs(pod["automountServiceAccountToken"], True)
        self.assertIn(pod["serviceAccountName"], of_kind("ServiceAccount", found))
        (role,), (binding,) = of_kind("Role", found).values(), of_kind("RoleBinding", found).values()
        self.assertEqual(binding["roleRef"]["name"], role["metadata"]["name"])
        self.assertEqual([subject["name"] for subject in binding["subjects"]], [pod["serviceAccountName"]])
        (rule,) = role["rules"]
        self.assertEqual((rule["resources"], sorted(rule["verbs"])), (["statefulsets/scale"], ["get", "patch"]))
        self.assertEqual(rule["resourceNames"], [arguments["scale-kubernetes"]])
        self.assertIn(arguments["scale-kubernetes"], of_kind("StatefulSet", objects("base")))
        pool, _, limits = arguments["scale-limits"].partition("=")
        least, most = map(int, limits.split(":"))
        self.assertEqual(pool, "default")
        self.assertEqual(most, sum(devices for *_, devices in manifests.nodes() if devices))
        self.assertGreaterEqual(least, 1)
        flags = [argument for argument in container_of(entry)["args"] if not argument.startswith("--log-format")]
        done = subprocess.run([PROGRAM, "serve", *flags, "--show-limits"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        (policy,) = of_kind("NetworkPolicy", found).values()
        labels = entry["spec"]["template"]["metadata"]["labels"]
        self.assertLessEqual(policy["spec"]["podSelector"]["matchLabels"].items(), labels.items())

    def test_what_is_wrong_is_found(self):
        entry = manifests.stateful_sets()["backend"]
        for path, value in ((("spec", "replicas"), "two"), (("spec", "template", "spec", "no_such_field"), 1)):
            broken = json.loads(json.dumps(entry))
            at = broken
            for key in path[:-1]:
                at = at[key]
            at[path[-1]] = value
            with self.assertRaises(kubernetes_validate.ValidationError):
                validate(broken)

    def test_parts_of_the_core_in_others(self):
        """The pod of the ServingRuntime; the behaviour of the ScaledObject, which is an autoscaler's."""
        (runtime,) = objects("kserve")
        spec = {key: runtime["spec"][key] for key in ("containers", "volumes")}
        validate({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": spec})
        (scaled,) = objects("keda")
        spec = {
            "scaleTargetRef": scaled["spec"]["scaleTargetRef"],
            "minReplicas": scaled["spec"]["minReplicaCount"],
            "maxReplicas": scaled["spec"]["maxReplicaCount"],
            "behavior": scaled["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"],
        }
        validate({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "x"}, "spec": spec})

    @unittest.skipUnless("TUTTI_CRDS" in os.environ, "TUTTI_CRDS names no folder with definitions of KServe and KEDA")
    def test_definitions_of_others(self):
        schemas = {}
        for path in pathlib.Path(os.environ["TUTTI_CRDS"]).glob("*.yaml"):
            for definition in manifests.read(path):
                for version in definition["spec"]["versions"]:
                    schemas[definition["spec"]["names"]["kind"], version["name"]] = version["schema"]["openAPIV3Schema"]
        for name in ("kserve", "keda"):
            for entry in objects(name):
                schema = schemas[entry["kind"], entry["apiVersion"].rsplit("/", 1)[1]]
                # apiVersion, kind and metadata belong to every object.
                jsonschema.validate(entry["spec"], strict(schema["properties"]["spec"]))
                with self.assertRaises(jsonschema.ValidationError):
                    jsonschema.validate(dict(entry["spec"], no_such_field=1), strict(schema["properties"]["spec"]))

    def test_they_are_rendered(self):
        if not shutil.which("kubectl"):
            self.skipTest("kubectl is not installed")
        for name in ("base", "keda", "kserve", "scale"):
            done = subprocess.run(["kubectl", "kustomize", str(FOLDER / name)], capture_output=True, text=True, timeout=120)
            self.assertEqual(done.returncode, 0, done.stderr)
            rendered = [entry for entry in yaml.safe_load_all(done.stdout) if entry]
            self.assertGreater(len(rendered), 0)
            for entry in rendered:
                if entry["apiVersion"] in CORE:
                    validate(entry)
            if name == "kserve":
                continue
            maps = of_kind("ConfigMap", rendered)
            self.assertEqual([entry["data"]["nodes"] for entry in maps.values()], [(FOLDER / "base" / "nodes").read_text()])
            for entry in of_kind("StatefulSet", rendered).values():
                volumes = {volume["name"]: volume for volume in entry["spec"]["template"]["spec"]["volumes"]}
                self.assertIn(volumes["nodes"]["configMap"]["name"], maps)


class Truth(unittest.TestCase):
    """What the manifests say of the program."""

    @classmethod
    def setUpClass(cls):
        described = json.loads(subprocess.run([PROGRAM, "--describe"], capture_output=True, text=True, check=True, timeout=60).stdout)
        (serve,) = [verb for verb in described if verb["name"] == "serve"]
        cls.flags = {row["name"]: row for row in serve["rows"] if row["type"] != "heading" and not row["operand"]}
        cls.sets = manifests.stateful_sets()
        (cls.runtime,) = objects("kserve")

    def test_flags(self):
        for entry in (*self.sets.values(), self.runtime):
            for argument in container_of(entry)["args"]:
                name, equals, value = argument.removeprefix("--").partition("=")
                with self.subTest(argument=argument):
                    self.assertIn(name, self.flags)
                    row = self.flags[name]
                    self.assertEqual(bool(equals), row["type"] != "switch")
                    if row["type"] == "choice":
                        self.assertIn(value, row["choices"].split("|"))
                    if row["type"] == "integer":
                        self.assertTrue(row["minimum"] <= int(value) <= row["maximum"], row)

    def test_the_program_takes_all_flags_together(self):
        for entry in (*self.sets.values(), self.runtime):
            arguments = [argument for argument in container_of(entry)["args"] if not argument.startswith("--log-format")]
            done = subprocess.run([PROGRAM, "serve", *arguments, "--show-limits"], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_ports(self):
        services = of_kind("Service", objects("base"))
        for role, entry in self.sets.items():
            arguments, container = arguments_of(entry), container_of(entry)
            ports = {port["name"]: (port["containerPort"], port.get("protocol", "TCP")) for port in container["ports"]}
            self.assertEqual(ports["http"], (int(arguments["http-port"]), "TCP"))
            self.assertEqual("grpc" in ports, arguments["grpc-port"] != "0")
            if "grpc" in ports:
                self.assertEqual(ports["grpc"], (int(arguments["grpc-port"]), "TCP"))
            (node_port,) = {port for _, _, _, port, _ in manifests.nodes()}
            self.assertEqual((ports["node"], ports["node-udp"]), ((node_port, "TCP"), (node_port, "UDP")))
            annotations = entry["spec"]["template"]["metadata"]["annotations"]
            self.assertEqual(annotations["prometheus.io/port"], arguments["http-port"])
            for probe in PROBES:
                self.assertIn(container[probe]["httpGet"]["port"], ports)
            headless = services["tutti-nodes"]["spec"]
            self.assertEqual({port["targetPort"] for port in headless["ports"]}, {"node", "node-udp"})
            self.assertEqual({port["port"] for port in headless["ports"]}, {node_port})
        frontend = {port["name"]: port["containerPort"] for port in container_of(self.sets["frontend"])["ports"]}
        for port in services["tutti"]["spec"]["ports"]:
            self.assertEqual(port["port"], frontend[port["targetPort"]])
        arguments = arguments_of(self.runtime)
        self.assertEqual([port["containerPort"] for port in container_of(self.runtime)["ports"]], [int(arguments["http-port"])])
        self.assertEqual(self.runtime["spec"]["annotations"]["prometheus.kserve.io/port"], arguments["http-port"])
        for probe in PROBES:
            self.assertEqual(str(container_of(self.runtime)[probe]["httpGet"]["port"]), arguments["http-port"])

    def test_network_policies(self):
        """Each port of a container is let in by some rule, and no rule lets in another one."""
        allowed = set()
        for policy in of_kind("NetworkPolicy", objects("base")).values():
            for rule in policy["spec"]["ingress"]:
                allowed |= {(port["port"], port["protocol"]) for port in rule["ports"]}
        served = set()
        for entry in self.sets.values():
            served |= {(port["containerPort"], port.get("protocol", "TCP")) for port in container_of(entry)["ports"]}
        self.assertEqual(allowed, served)

    def test_selectors(self):
        """A selector finds the pods of the roles that it should, and of no others."""
        labels = {role: entry["spec"]["template"]["metadata"]["labels"] for role, entry in self.sets.items()}

        def found(selector):
            return {role for role, has in labels.items() if selector.items() <= has.items()}

        for role, entry in self.sets.items():
            self.assertEqual(found(entry["spec"]["selector"]["matchLabels"]), {role})
        base = objects("base")
        self.assertEqual(found(of_kind("Service", base)["tutti"]["spec"]["selector"]), {"frontend"})
        self.assertEqual(found(of_kind("Service", base)["tutti-nodes"]["spec"]["selector"]), set(ROLES))
        budgets = of_kind("PodDisruptionBudget", base)
        self.assertEqual([found(budget["spec"]["selector"]["matchLabels"]) for budget in budgets.values()], [{r} for r in ROLES])
        policies = of_kind("NetworkPolicy", base)
        self.assertEqual(found(policies["tutti-nodes"]["spec"]["podSelector"]["matchLabels"]), set(ROLES))
        self.assertEqual(found(policies["tutti-clients"]["spec"]["podSelector"]["matchLabels"]), {"frontend"})

    def test_nodes_are_pods(self):
        namespace = manifests.kustomization("base")["namespace"]
        named = {role: [name for r, name, *_ in manifests.nodes() if r == role] for role in ROLES}
        for role, name, host, _, devices in manifests.nodes():
            service = self.sets[role]["spec"]["serviceName"]
            self.assertEqual(host, "%s.%s.%s.svc.cluster.local" % (name, service, namespace))
            self.assertEqual(devices is not None, role == "backend")
        for role, entry in self.sets.items():
            pods = ["%s-%d" % (entry["metadata"]["name"], i) for i in range(len(named[role]))]
            self.assertEqual(named[role], pods)
            self.assertLessEqual(entry["spec"]["replicas"], len(pods))
            self.assertEqual(arguments_of(entry)["role"], role)
        (scaled,) = objects("keda")
        self.assertEqual(scaled["spec"]["maxReplicaCount"], len(named["backend"]))
        self.assertIn(scaled["spec"]["scaleTargetRef"]["name"], of_kind("StatefulSet", objects("base")))
        (trigger,) = scaled["spec"]["triggers"]
        (devices,) = {devices for _, _, _, _, devices in manifests.nodes() if devices is not None}
        self.assertEqual(int(trigger["metadata"]["threshold"]), devices)
        self.assertIn('namespace="%s"' % namespace, trigger["metadata"]["query"])

    def test_files_of_flags_are_mounted(self):
        for entry in self.sets.values():
            arguments = arguments_of(entry)
            mounts = [mount["mountPath"] for mount in container_of(entry)["volumeMounts"]]
            for path in (arguments["cluster"].removeprefix("static:"), arguments["cluster-key"], arguments["model-repository"] + "/x"):
                self.assertIn(os.path.dirname(path), mounts)
            volumes = {volume["name"] for volume in entry["spec"]["template"]["spec"]["volumes"]}
            self.assertEqual({mount["name"] for mount in container_of(entry)["volumeMounts"]}, volumes)

    def test_the_drain_ends_before_the_pod_is_killed(self):
        default = 30
        for entry in (*self.sets.values(), self.runtime):
            arguments = arguments_of(entry)
            spec = entry["spec"].get("template", entry)["spec"]
            patience_s = spec.get("terminationGracePeriodSeconds", default)
            needed_ms = int(arguments["drain-ms"]) + int(arguments["grace-ms"])
            self.assertLess(needed_ms, 1000 * patience_s)
            # An endpoint goes when its probe has failed; the drain is longer.
            probe = container_of(entry)["readinessProbe"]
            self.assertGreater(int(arguments["drain-ms"]), 2000 * probe["periodSeconds"] * probe["failureThreshold"])

    def test_rights(self):
        for entry in (*self.sets.values(), self.runtime):
            context = container_of(entry)["securityContext"]
            self.assertEqual(
                (context["allowPrivilegeEscalation"], context["readOnlyRootFilesystem"], context["capabilities"]),
                (False, True, {"drop": ["ALL"]}),
            )
        for entry in self.sets.values():
            pod = entry["spec"]["template"]["spec"]
            image_user = int(re.search(r"^USER = (\d+)", (ROOT / "scripts" / "make_oci.py").read_text(), re.M).group(1))
            self.assertEqual((pod["securityContext"]["runAsNonRoot"], pod["securityContext"]["runAsUser"]), (True, image_user))
            self.assertFalse(pod["automountServiceAccountToken"])
            (secret,) = [volume["secret"] for volume in pod["volumes"] if "secret" in volume]
            self.assertEqual(secret["defaultMode"], 0o440)  # src/fleet/handshake.c accepts it

    def test_names_that_kserve_wants(self):
        self.assertEqual(container_of(self.runtime)["name"], "kserve-container")
        self.assertEqual(arguments_of(self.runtime)["model-repository"], "/mnt/models")
        self.assertTrue({"v2", "grpc-v2"} >= set(self.runtime["spec"]["protocolVersions"]))
        self.assertTrue(any(kind.get("autoSelect") for kind in self.runtime["spec"]["supportedModelFormats"]))

    def test_routes(self):
        """A server answers what probes and Prometheus ask."""
        from cluster_process import Cluster
        from server_process import Server

        alone = Server([PROGRAM, "serve", "--model-repository", str(Cluster().models), "--http-port", "0", "--grpc-port", "0"])
        self.addCleanup(alone.stop, 60)
        self.assertTrue(alone.wait_ready(60), alone.said())
        paths = {self.runtime["spec"]["annotations"]["prometheus.kserve.io/path"]}
        for entry in (*self.sets.values(), self.runtime):
            paths |= {container_of(entry)[probe]["httpGet"]["path"] for probe in PROBES}
        for entry in self.sets.values():
            paths.add(entry["spec"]["template"]["metadata"]["annotations"]["prometheus.io/path"])
        self.assertEqual(paths, {"/v2/health/live", "/v2/health/ready", "/metrics"})
        for path in paths:
            with urllib.request.urlopen("http://%s%s" % (alone.address, path), timeout=60) as answer:
                self.assertEqual(answer.status, 200)

    def test_the_metric_is_exported(self):
        """Its name is that of src/fleet; test_cluster_advice.py reads it from a real primary."""
        (scaled,) = objects("keda")
        (name,) = re.findall(r"tutti_\w+", scaled["spec"]["triggers"][0]["metadata"]["query"])
        self.assertIn('"%s"' % name, (ROOT / "src" / "fleet" / "cluster_demand.c").read_text())


if __name__ == "__main__":
    unittest.main(verbosity=2)
