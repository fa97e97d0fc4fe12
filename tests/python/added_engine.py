"""The program with one engine more: the objects of the build, but for the registry, and the new file."""
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ["TUTTI_PROGRAM"]).resolve()
BUILD = PROGRAM.parent
REGISTRY = "src/engine/engine_registry.c"
MARK = re.compile(r"^    X\(onnxruntime\) +\\\n", re.M)


def run(command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode != 0:
        raise AssertionError("%s\nends with %d:\n%s" % (command, done.returncode, done.stdout))
    return done.stdout


def link_command():
    """The shell command that linked the program, to be run in the build directory."""
    text = BUILD.joinpath("CMakeFiles", "tutti.dir", "link.txt")
    if text.exists():
        return text.read_text()
    cache = BUILD.joinpath("CMakeCache.txt").read_text()
    ninja = re.search(r"^CMAKE_MAKE_PROGRAM:\w+=(.*)$", cache, re.M).group(1)
    return run([ninja, "-C", str(BUILD), "-t", "commands", "-s", PROGRAM.name]).splitlines()[-1]


def add_engine(folder, name, source):
    """src/ in the folder, with the engine; the two files that differ from ours."""
    shutil.copytree(ROOT / "src", folder / "src")
    engine = folder / "src/engine" / (name + ".c")
    assert not engine.exists(), engine
    engine.write_text(source)
    registry = folder / REGISTRY
    before = registry.read_text()
    after = MARK.sub(lambda found: found.group() + "    X(%s) \\\n" % name, before)
    assert len(after.splitlines()) == len(before.splitlines()) + 1, "one line more"
    registry.write_text(after)
    return [engine, registry]


def compile_file(folder, source):
    """The object of a file of the copy, by the command that the build has for the registry."""
    database = json.loads(BUILD.joinpath("compile_commands.json").read_text())
    entry = next(e for e in database if e["file"] == str(ROOT / REGISTRY))
    words = entry.get("arguments") or shlex.split(entry["command"])
    made = folder / (source.stem + ".o")
    replaced = {str(ROOT / REGISTRY): str(source), "-I%s/src" % ROOT: "-I%s/src" % folder}
    command = [replaced.get(word, word) for word in words]
    command[command.index("-o") + 1] = str(made)
    run(command, cwd=entry["directory"])
    return made


def build(folder, name, source):
    """The program with the engine `name`, whose file has the text `source`."""
    folder = pathlib.Path(folder)
    objects = [str(compile_file(folder, path)) for path in add_engine(folder, name, source)]
    program = folder / "tutti"
    command, count = re.subn(
        r" -o %s " % re.escape(PROGRAM.name), " -o %s %s " % (program, " ".join(objects)), link_command(), count=1
    )
    assert count == 1, "the link command names its output"
    run(command, shell=True, cwd=BUILD)
    return program
