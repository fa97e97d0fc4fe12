#!/usr/bin/env python3
"""Checks comments, messages and documents against the project's style of English; prints file:line and the phrase.

    check_language.py [--count] [PATH ...]      exit code 1 when a phrase is found

Without paths: everything that this repository keeps and people read, but for docs/results and data.
Read are comments and strings of several words in C, JavaScript, Python, shell and make; comments in .proto and .pbtxt; the
prose of .md. --count prints a line per folder instead: words, findings, findings per 1000 words.

What is rejected:
  who        who, whom, whoever, somebody, nobody, anybody, everybody, except behind a word for people
             ("users who ...")
  metaphor   private terms for which the field has a word
  wording    foreign phrases for which English has a plain one
  long       a sentence of more than 40 words, in comments and documents
"""
import collections
import io
import pathlib
import re
import sys
import tokenize

ROOT = pathlib.Path(__file__).resolve().parent.parent
PEOPLE = (
    r"(?:people|person|persons|users?|readers?|engineers?|operators?|authors?|developers?|researchers?|strangers?"
    r"|those|anyone|everyone|someone|newcomers to the project|team|attackers?|maintainers?|contributors?)"
)


def phrase(pattern):
    """A phrase may be broken over two lines."""
    return re.compile(pattern.replace(" ", r"\s+"), re.I)


PHRASES = [
    ("who", phrase(r"(?<![\w-])\b(who|whom|whoever|whomever)\b"), "it, that, which; or name the thing"),
    ("who", phrase(r"\b(somebody|nobody|anybody|everybody|somebody's|nobody's)\b"), "something, nothing, no request, any thread ..."),
    ("metaphor", phrase(r"\b(baton|a nap|naps|napping|tt_nap|alarm clock|the desk|desks|specimens?|batch mates?)\b"),
     "eventcount, combining lock, scratch, synthetic input, members of the batch"),
    ("metaphor", phrase(r"\b(the house|floors?(?!\()|ski[ -]?rent(?:er|s)?)\b"), "project, layer, ski-rental rule"),
    ("wording", phrase(r"\b(so called|so-called|is told|are told|was told|were told|tells? (?:of|it|them|the)|hears? (?:of|it)"
                       r"|the standard (?:is|one)|as standard|at most ever|of late|likes? it|thereupon|whereupon|the likes? of)\b"),
     "called, is notified, returns, default"),
    ("wording", phrase(r"\b(comes? to be|for ever and|goes on behind|of its own like|in company|wants? to know|the letter of)\b"),
     "plain words"),
]  # fmt: skip
BEHIND_PEOPLE = re.compile(rf"\b{PEOPLE}(?:\s+\w+)?,?\s+$", re.I)
MAX_WORDS = 40
STRING_TOKENS = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
C_TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def c_texts(text):
    """(offset, prose, is it a comment?) of every comment and every string of several words."""
    for match in C_TOKEN.finditer(text):
        token = match.group()
        if token[0] == "/":
            prose = re.sub(r"^(/\*+|//)", lambda m: " " * len(m.group()), token)
            prose = re.sub(r"\n[ \t]*\*(?!/)", lambda m: "\n" + " " * (len(m.group()) - 1), prose)
            yield match.start(), prose.removesuffix("*/"), True
        elif token[0] == '"' and token.count(" ") >= 2:
            yield match.start() + 1, token[1:-1], False


def proto_texts(text):
    for match in re.finditer(r"(?:^[ \t]*//[^\n]*(?:\n|$))+|//[^\n]*", text, re.M):
        yield match.start(), blank(r"//", match.group()), True


def js_texts(text):
    yield from c_texts(text)
    for match in re.finditer(r"`[^`]*`|'(?:\\.|[^'\\\n])*'", text):
        if match.group().count(" ") >= 2:
            yield match.start() + 1, match.group()[1:-1], False


def blank(marker, block):
    """The block with the marker of a comment at the beginning of each line replaced by as many spaces."""
    return re.sub(rf"^([ \t]*)({marker})", lambda m: m.group(1) + " " * len(m.group(2)), block, flags=re.M)


def python_texts(text):
    starts = [0, *(m.end() for m in re.finditer(r"\n", text))]
    blocks = []  # (first offset, end, last line) of comments; those that fill consecutive lines are one
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        (line, column), at = token.start, starts[token.start[0] - 1] + token.start[1]
        if token.type == tokenize.COMMENT:
            fills_line = not token.line[:column].strip()
            if fills_line and blocks and blocks[-1][2] == line - 1:
                blocks[-1] = (blocks[-1][0], at + len(token.string), line)
            else:
                blocks.append((at, at + len(token.string), line if fills_line else -1))
        elif token.type in STRING_TOKENS and token.string.count(" ") >= 2:
            yield at, token.string, False
    for at, end, _ in blocks:
        yield at, blank("#+", text[at:end]), True


def hash_texts(text):
    """Comments after # and strings of several words: shell, make, CMake, text-format protobuf."""
    for match in re.finditer(r"(?:^[ \t]*#[^\n]*(?:\n|$))+|(?<=\s)#[^\n]*", text, re.M):
        yield match.start(), blank("#+", match.group()), True
    text = re.sub(r"(?:^|(?<=\s))#[^\n]*", lambda m: " " * len(m.group()), text, flags=re.M)
    for match in re.finditer(r'"(?:\\.|[^"\\])*"', text):
        if match.group().count(" ") >= 2:
            yield match.start(), match.group(), False


def markdown_texts(text):
    text = re.sub(r"^```.*?^```", lambda m: re.sub(r"[^\n]", " ", m.group()), text, flags=re.S | re.M)
    text = re.sub(r"(?:(?<=\n\n)|\A)(?:(?: {4}|\t)[^\n]*\n?)+", lambda m: re.sub(r"[^\n]", " ", m.group()), text)
    text = re.sub(r"`[^`\n]*`", lambda m: "x" * len(m.group()), text)
    yield 0, text, True


def sentences(prose):
    """(offset, words) of each sentence: up to a full stop, colon or semicolon, an empty line, a list item or a column."""
    at = 0
    for part in re.split(r"((?<=[.!?:;])\s+|\n\s*\n|\n\s*[-*|#]\s*|\||(?<=\S) {2,}(?=\S))", prose):
        words = re.findall(r"[A-Za-z][\w'-]*", part)
        if words:
            yield at, len(words)
        at += len(part)


def plain_texts(text):
    yield 0, text, False


READERS = {
    ".c": c_texts, ".h": c_texts, ".js": js_texts, ".css": c_texts, ".proto": proto_texts,
    ".md": markdown_texts, ".mdoc": plain_texts, ".html": plain_texts, ".py": python_texts,
    **dict.fromkeys((".sh", ".bash", ".cmake", ".pbtxt", ".yml", ".supp", "Makefile", "CMakeLists.txt", ".clang-tidy", ".ci/run"), hash_texts),
}  # fmt: skip
OWN_PHRASES = ("scripts/check_language.py", "scripts/test_checks.py")  # they name what is rejected


def reader_of(path):
    return next((reader for end, reader in READERS.items() if path.as_posix().endswith(end)), None)


class Checker:
    def __init__(self):
        self.problems, self.words = [], collections.Counter()

    def check(self, path):
        text = path.read_text(encoding="utf-8", errors="replace")
        for at, prose, is_prose in reader_of(path)(text):
            self.words[path.parent] += len(re.findall(r"[A-Za-z]+", prose))
            for kind, pattern, better in PHRASES:
                for match in pattern.finditer(prose):
                    if kind == "who" and BEHIND_PEOPLE.search(prose[: match.start()]):
                        continue
                    self.say(path, text, at + match.start(), kind, f"'{' '.join(match.group().split())}': {better}")
            if is_prose:
                for start, words in sentences(prose):
                    if words > MAX_WORDS:
                        self.say(path, text, at + start, "long", f"a sentence of {words} words: at most {MAX_WORDS}")

    def say(self, path, text, at, kind, message):
        self.problems.append((path, text.count("\n", 0, at) + 1, kind, message))


def all_files():
    folders = ("src", "include", "proto", "tests", "examples", "scripts", "bench", "cmake", "facts", "experiments", "packaging", "docs/man")
    skipped = {ROOT / "tests/data", *(ROOT / name for name in OWN_PHRASES)}
    paths = [p for folder in folders for p in sorted((ROOT / folder).rglob("*"))]
    paths += [*sorted((ROOT / "docs").glob("*.md")), *sorted(p for p in ROOT.iterdir()), ROOT / ".ci/run"]
    return [p for p in paths if p.is_file() and reader_of(p) and not skipped.intersection((p, *p.parents))]


def files_below(path):
    return sorted(p for p in path.rglob("*") if p.is_file() and reader_of(p)) if path.is_dir() else [path]


def shown(path):
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path


def main(arguments):
    if arguments[:1] in (["-h"], ["--help"]):
        print(__doc__)
        return 0
    counting = "--count" in arguments
    named = [pathlib.Path(a).resolve() for a in arguments if a != "--count"]
    for path in named:
        if not path.exists() or (path.is_file() and not reader_of(path)):
            print(f"check_language: {path}: a folder or a file of a known type was expected", file=sys.stderr)
            return 2
    checker = Checker()
    for path in (f for n in named for f in files_below(n)) if named else all_files():
        checker.check(path)
    if counting:
        found = collections.Counter(path.parent for path, *_ in checker.problems)
        for folder in sorted(checker.words):
            words = checker.words[folder]
            print(f"{shown(folder)!s:28} {words:7} words {found[folder]:5} findings {1000 * found[folder] / max(1, words):6.1f} per 1000")
    else:
        for path, line, kind, message in checker.problems:
            print(f"{shown(path)}:{line}: {kind}: {message}")
    kinds = collections.Counter(kind for *_, kind, _ in checker.problems)
    print(f"check_language: {sum(checker.words.values())} words, {len(checker.problems)} findings"
          + "".join(f", {kind} {count}" for kind, count in sorted(kinds.items())), file=sys.stderr)  # fmt: skip
    return 1 if checker.problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
