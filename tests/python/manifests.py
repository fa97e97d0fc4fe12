"""The manifests of packaging/kubernetes, read without kubectl."""
import pathlib

import yaml

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "packaging" / "kubernetes"
ROLES = ("scheduler", "frontend", "backend")


def read(path):
    return [entry for entry in yaml.safe_load_all(path.read_text()) if entry is not None]


def kustomization(name):
    (found,) = read(FOLDER / name / "kustomization.yaml")
    return found


def objects(name):
    """Of the files that the kustomization names; folders among them are left out."""
    found = []
    for resource in kustomization(name)["resources"]:
        path = FOLDER / name / resource
        if path.is_file():
            found += read(path)
    return found


def of_kind(kind, among):
    return {entry["metadata"]["name"]: entry for entry in among if entry["kind"] == kind}


def container_of(entry):
    """The only container of a StatefulSet or a ServingRuntime."""
    spec = entry["spec"]
    (container,) = (spec["template"]["spec"] if "template" in spec else spec)["containers"]
    return container


def stateful_sets():
    """By role."""
    found = of_kind("StatefulSet", objects("base"))
    return {role: found["tutti-" + role] for role in ROLES}


def nodes():
    """[(role, name, host, port, devices)] of the file of nodes."""
    found = []
    for line in (FOLDER / "base" / "nodes").read_text().splitlines():
        words = line.split("#")[0].split()
        if words and words[0] in ROLES:
            host, port = words[2].rsplit(":", 1)
            devices = int(words[3].removeprefix("devices=")) if len(words) > 3 else None
            found.append((words[0], words[1], host, int(port), devices))
    return found
