#!/usr/bin/env python3
"""Checks the project's rules that no compiler checks; prints file:line, what is wrong, what would be right.

    check_layers.py [ROOT]      exit code 1 when a rule is broken

Rules (src/ unless said):
  layers     a file includes "folder/x.h" of its own folder or of folders in strictly lower layers
  pure       core and policy see no clock, thread, file or socket, and print nothing
  floats     core and policy have no float or double; a file whose numbers never decide says so in a
             comment line of its own: /* floats: the reason */
  memory     core and policy allocate only in functions named *_new, *_init, *_create, *_reserve, *_open,
             with at most one word behind (*_new_points)
  atomics    atomics and locks exist only in base
  policies   outside policy no code compares a policy's name, and outside core none looks at a policy's
             callbacks: what a policy is, its traits say
  unique     a file's name, and its stem, belong to one folder only
  size       a file has at most 1000 lines; a function 70, unless the comment above it says "long:" and
             why; a line 100 columns (src/ and tests/)
"""
import pathlib
import re
import sys

# The folders of src from the ground up, a layer a line. A file includes files of its own folder and of folders in
# lower layers; folders of one layer do not know each other.
LAYERS = [
    ["base"],
    ["base/threads"],
    ["base/log"],
    ["core"],
    ["policy", "device", "model/text", "net/json", "net/coding", "net/access", "net/tls", "net/ucx"],
    ["policy/deferred", "policy/elastic", "policy/lazy", "model/onnx", "net/telemetry"],
    ["model/config", "sim", "multicore", "cluster", "place", "scale"],
    ["model/cells", "record"],
    ["model/repository", "engine"],
    ["engine/emulated", "engine/onnxruntime", "engine/wordpiece", "engine/python", "engine/streams"],
    ["profile"],
    ["slicer", "serve", "client"],
    ["control", "metrics", "etcd", "actuate", "net/kserve", "net/dashboard", "net/sockets", "net/http2"],
    ["net/http", "net/grpc", "fleet", "embed"],
    ["lab/scenario"],
    ["lab/closed_form", "lab/load", "lab/processes"],
    ["lab/run", "lab/clairvoyant"],
    ["lab/experiment"],
    ["lab/report"],
    ["lab/sweep", "lab/autoscale", "lab/bench"],
    ["lab/replay"],
    ["lab/plan"],
    ["lab/facts"],
    ["cmd"],
]
LAYER_OF = {folder: layer for layer, folders in enumerate(LAYERS, 1) for folder in folders}
PURE = ("core", "policy")
MAX_FILE_LINES, MAX_FUNCTION_LINES, MAX_COLUMNS = 1000, 70, 100

IMPURE_HEADER = re.compile(
    r"(time|pthread|threads|unistd|signal|fcntl|poll|dlfcn|dirent|uv|semaphore|sched)\.h$|(sys|arpa|net|netinet|linux)/"
)
IMPURE_CALL = re.compile(
    r"\b(fopen|fprintf|printf|vprintf|puts|fputs|putchar|fwrite|fread|getenv|rand|srand|random|time|clock"
    r"|clock_gettime|gettimeofday|nanosleep|usleep|sleep)\s*\("
)
FLOAT = re.compile(r"\b(float|double)\b")
FLOATS_ALLOWED = re.compile(r"^\s*/\* floats: \S.*\*/\s*$", re.M)
ALLOCATION = re.compile(r"\b(malloc|calloc|realloc|reallocarray|aligned_alloc|posix_memalign|strdup|strndup|asprintf)\s*\(")
MAY_ALLOCATE = re.compile(r"_(new|init|create|reserve|open)(_[a-z0-9]+)?$")
ATOMIC_HEADER = re.compile(r"(^|/)(stdatomic|ck_\w+|semaphore)\.h$")
ATOMIC = re.compile(
    r"\b(__atomic_\w+|__sync_\w+|_Atomic|atomic_\w+|pthread_(mutex|cond|rwlock|spin|barrier)\w*|mtx_\w+|cnd_\w+"
    r"|sem_(init|wait|post|t)|uv_(mutex|cond|rwlock|sem|barrier)_\w+|ck_(ring|pr|spinlock)_\w+)\b"
)
REGISTERED = re.compile(r"^\s*X\((\w+)\)", re.M)
CALLBACK = re.compile(
    r"\bops->(arrived|finished|cancelled|decide|next_at|released|max_tasks|ready|model_changed|executor_changed)\b"
)
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def blank(text):
    """The same shape of text with everything but line ends made spaces."""
    return re.sub(r"[^\n]", " ", text)


def code_only(text):
    """C without comments, strings and character constants; lines and columns stay where they were."""
    return TOKEN.sub(lambda match: blank(match.group()), text)


def without_directives(code):
    return re.sub(r"^[ \t]*#(?:\\\n|[^\n])*", lambda match: blank(match.group()), code, flags=re.M)


def function_name(head):
    """The name in a definition's head: the identifier before the last parenthesis at depth 0. None: no function."""
    head = head.rstrip()
    if not head.endswith(")") or "=" in re.sub(r"\([^()]*\)", "", head):
        return None
    depth = 0
    for at in range(len(head) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(head[at], 0)
        if depth == 0 and head[at] == "(":
            name = re.search(r"(\w+)\s*$", head[:at])
            return name.group(1) if name else None
    return None


def functions(code):
    """(name, start offset of the head, offset of the opening brace, offset of the closing one) of each definition."""
    code = without_directives(code)
    found, depth, head_at, open_function = [], 0, 0, None
    for at, char in enumerate(code):
        if char == "{":
            if depth == 0:
                name = function_name(code[head_at:at])
                open_function = (name, head_at, at) if name else None
            depth += 1
        elif char == "}":
            depth = max(0, depth - 1)
            if depth == 0:
                if open_function:
                    found.append((*open_function, at))
                    open_function = None
                head_at = at + 1
        elif char == ";" and depth == 0:
            head_at = at + 1
    return found


class Checker:
    def __init__(self, root):
        self.root, self.problems = root, []
        registry = root / "src" / "policy" / "registry.c"
        names = REGISTERED.findall(registry.read_text(encoding="utf-8")) if registry.exists() else []
        self.compared = re.compile(r'str\w*cmp\([^;"]*(?:polic|name)[^;"]*"(%s)"' % "|".join(names)) if names else None

    def say(self, path, line, text):
        self.problems.append((str(path.relative_to(self.root)), line, text))

    def check_includes(self, path, layer, text):
        own, top = LAYER_OF[layer], layer.split("/")[0]
        for number, line in enumerate(text.split("\n"), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            quote, name = match.groups()
            if top in PURE and IMPURE_HEADER.search(name):
                self.say(path, number, f"{layer} is pure and must not include {name}: "
                         "time comes in as `now`, I/O and threads live in engine, rt and net")  # fmt: skip
            if top != "base" and ATOMIC_HEADER.search(name):
                self.say(path, number, f"{name}: atomics and locks exist only in src/base; use a ring or a "
                         "latest-value register from there")  # fmt: skip
            if quote == "<":
                continue
            if name.endswith(".pb-c.h") and "/" not in name:
                if top in ("base", *PURE):
                    self.say(path, number, f"{layer} must not include the schema {name}: src/model reads files "
                             "and hands over core's own types")  # fmt: skip
                continue
            target = name.rpartition("/")[0]
            if target not in LAYER_OF:
                self.say(path, number, f'"{name}" names no folder of src: write "folder/file.h", relative to src/')
            elif target != layer and LAYER_OF[target] >= own:
                lower = " ".join(f for f in LAYER_OF if LAYER_OF[f] < own)
                self.say(path, number, f'src/{layer} (layer {own}) must not include "{name}" (layer '
                         f"{LAYER_OF[target]}): only {layer} itself{' and ' + lower if lower else ''}")  # fmt: skip

    def check_tokens(self, path, layer, text, code, bodies):
        floats_allowed = FLOATS_ALLOWED.search(text)
        starts = [0]
        for line in code.split("\n"):
            starts.append(starts[-1] + len(line) + 1)
        for number, line in enumerate(code.split("\n"), 1):
            match = ATOMIC.search(line)
            if match and layer.split('/')[0] != "base":
                self.say(path, number, f"{match.group(1)}: atomics and locks exist only in src/base; send a message "
                         "over one of its rings, or overwrite a latest-value register")  # fmt: skip
            if layer.split('/')[0] not in PURE:
                continue
            match = FLOAT.search(line)
            if match and not floats_allowed:
                self.say(path, number, f"{match.group(1)} in {layer}: decisions are made in int64 nanoseconds; where "
                         "a number never decides, say so in a line /* floats: reason */")  # fmt: skip
            match = IMPURE_CALL.search(line)
            if match:
                self.say(path, number, f"{match.group(1)}() in {layer}: pure code reads no clock, file or environment "
                         "and prints nothing; let the caller pass it in or take it out")  # fmt: skip
            for match in ALLOCATION.finditer(line):
                at = starts[number - 1] + match.start()
                name = next((n for n, _, first, last in bodies if first <= at <= last), "file scope")
                if not MAY_ALLOCATE.search(name):
                    self.say(path, number, f"{match.group(1)} in {name}: {layer} allocates only in *_new, *_init, "
                             "*_create, *_reserve, *_open; the hot path takes from pools")  # fmt: skip

    def check_policies(self, path, layer, text, code):
        top = layer.split("/")[0]
        for number, line in enumerate(code.split("\n"), 1):
            match = CALLBACK.search(line)
            if match and top != "core":
                self.say(path, number, f"ops->{match.group(1)}: only core calls a policy or looks at its callbacks; "
                         "what the policy is, its traits say (core/policy_traits.h)")  # fmt: skip
        for match in self.compared.finditer(text) if self.compared and top != "policy" else ():
            self.say(path, text.count("\n", 0, match.start()) + 1, f'policy "{match.group(1)}" is recognised by its '
                     "name; ask a trait of its kind (policy/policy.h)")  # fmt: skip

    def check_size(self, path, text, code, bodies):
        lines = text.split("\n")
        if len(lines) - 1 > MAX_FILE_LINES:
            self.say(path, MAX_FILE_LINES + 1, f"{len(lines) - 1} lines: cut the file where its parts meet; at most "
                     f"{MAX_FILE_LINES}")  # fmt: skip
        for name, head, first, last in bodies:
            begin = code.count("\n", 0, first) + 1
            length = code.count("\n", first, last) + 1
            if length <= MAX_FUNCTION_LINES:
                continue
            signature = head + len(code[head:first]) - len(code[head:first].lstrip())
            if "long:" not in text[head:signature]:
                self.say(path, begin, f"{name} has {length} lines, at most {MAX_FUNCTION_LINES}: cut it, or say why "
                         "not in the comment above it, after the word long:")  # fmt: skip

    def check_columns(self, path, text):
        for number, line in enumerate(text.split("\n"), 1):
            if len(line) > MAX_COLUMNS:
                self.say(path, number, f"{len(line)} columns: at most {MAX_COLUMNS} (make format)")

    def check_unique(self, files):
        homes = {}
        for path in files:
            home = homes.setdefault(path.stem, path)
            if home.parent != path.parent:
                self.say(path, 1, f"the name {path.stem} is taken by {home.relative_to(self.root)}: file names are "
                         "unique in src; name the file for what it is on this layer")  # fmt: skip

    def run(self):
        src = self.root / "src"
        files = sorted(p for p in src.rglob("*") if p.suffix in (".c", ".h"))
        self.check_unique(files)
        for path in files:
            layer = str(path.relative_to(src).parent)
            text = path.read_text(encoding="utf-8")
            self.check_columns(path, text)
            if layer not in LAYER_OF:
                self.say(path, 1, f"src/{layer} stands in no layer: {' '.join(LAYER_OF)}")
                continue
            code = code_only(text)
            bodies = functions(code)
            self.check_includes(path, layer, text)
            self.check_tokens(path, layer, text, code, bodies)
            self.check_policies(path, layer, text, code)
            self.check_size(path, text, code, bodies)
        for path in sorted((self.root / "tests").rglob("*.[ch]")):
            self.check_columns(path, path.read_text(encoding="utf-8"))
        return len(files)


def main(arguments):
    if len(arguments) > 1 or arguments[:1] in (["-h"], ["--help"]):
        print(__doc__)
        return 0 if arguments[:1] in (["-h"], ["--help"]) else 2
    root = pathlib.Path(arguments[0] if arguments else pathlib.Path(__file__).parent.parent).resolve()
    if not (root / "src").is_dir():
        print(f"check_layers: {root} has no src/: give the root of the tree", file=sys.stderr)
        return 2
    checker = Checker(root)
    count = checker.run()
    for path, line, text in sorted(checker.problems):
        print(f"{path}:{line}: {text}")
    if checker.problems:
        print(f"check_layers: {len(checker.problems)} broken rules in {count} files of src", file=sys.stderr)
        return 1
    print(f"check_layers: {count} files of src keep the rules")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
