#!/usr/bin/env python3
"""Checks comments, messages and documents against the project's style of English; prints file:line and the phrase.

    check_language.py [--count] [PATH ...]      exit code 1 when a phrase is found

Without paths: src, include, proto, tests, docs (without docs/results), README.md, CONTRIBUTING.md, SECURITY.md.
--count prints a line per folder instead: words, findings, findings per 1000 words.

What is rejected:
  who        who, whom, whoever, somebody, nobody, anybody, everybody, except behind a word for people
             ("users who ...")
  metaphor   private terms for which the field has a word
  wording    foreign phrases for which English has a plain one
  long       a sentence of more than 40 words, in comments and documents
"""
import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PEOPLE = (
    r"(?:people|person|persons|users?|readers?|engineers?|operators?|authors?|developers?|researchers?|strangers?"
    r"|those|anyone|everyone|someone|newcomers to the project|team|attackers?|maintainers?|contributors?)"
)
PHRASES = [
    ("who", re.compile(r"(?<![\w-])\b(who|whom|whoever|whomever)\b", re.I), "it, that, which; or name the thing"),
    ("who", re.compile(r"\b(somebody|nobody|anybody|everybody|somebody's|nobody's)\b", re.I), "something, nothing, no request, any thread ..."),
    ("metaphor", re.compile(r"\b(baton|a nap|naps|napping|tt_nap|alarm clock|the desk|desks|specimens?|batch mates?)\b", re.I),
     "eventcount, combining lock, scratch, synthetic input, members of the batch"),
    ("metaphor", re.compile(r"\b(the house|floors?|ski ?rent(er|s)?)\b", re.I), "project, layer, ski-rental rule"),
    ("wording", re.compile(r"\b(so called|so-called|is told|are told|was told|were told|tells? (?:of|it|them|the)|hears? (?:of|it)"
                           r"|the standard (?:is|one)|as standard|at most ever|of late|likes? it|thereupon|whereupon|the likes? of)\b", re.I),
     "called, is notified, returns, default"),
    ("wording", re.compile(r"\b(comes? to be|for ever and|goes on behind|of its own like|in company|wants? to know|the letter of)\b", re.I),
     "plain words"),
]  # fmt: skip
BEHIND_PEOPLE = re.compile(rf"\b{PEOPLE}(?:\s+\w+)?,?\s+$", re.I)
MAX_WORDS = 40
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
    for match in re.finditer(r"//([^\n]*)", text):
        yield match.start(1), match.group(1), True


def markdown_texts(text):
    text = re.sub(r"^```.*?^```", lambda m: re.sub(r"[^\n]", " ", m.group()), text, flags=re.S | re.M)
    text = re.sub(r"`[^`\n]*`", lambda m: "x" * len(m.group()), text)
    yield 0, text, True


def sentences(prose):
    """(offset, words) of each sentence: up to a full stop, a colon at a line's end, an empty line or a list item."""
    at = 0
    for part in re.split(r"((?<=[.!?:;])\s+|\n\s*\n|\n\s*[-*|#]\s*|\|)", prose):
        words = re.findall(r"[A-Za-z][\w'-]*", part)
        if words:
            yield at, len(words)
        at += len(part)


class Checker:
    def __init__(self):
        self.problems, self.words = [], collections.Counter()

    def check(self, path):
        text = path.read_text(encoding="utf-8", errors="replace")
        readers = {".md": markdown_texts, ".proto": proto_texts}
        for at, prose, is_prose in readers.get(path.suffix, c_texts)(text):
            self.words[path.parent] += len(re.findall(r"[A-Za-z]+", prose))
            for kind, pattern, better in PHRASES:
                for match in pattern.finditer(prose):
                    if kind == "who" and BEHIND_PEOPLE.search(prose[: match.start()]):
                        continue
                    self.say(path, text, at + match.start(), kind, f"'{match.group()}': {better}")
            if is_prose:
                for start, words in sentences(prose):
                    if words > MAX_WORDS:
                        self.say(path, text, at + start, "long", f"a sentence of {words} words: at most {MAX_WORDS}")

    def say(self, path, text, at, kind, message):
        self.problems.append((path, text.count("\n", 0, at) + 1, kind, message))


def all_files():
    for folder in ("src", "include", "proto", "tests/unit", "tests/fuzz", "examples"):
        yield from sorted(p for p in (ROOT / folder).rglob("*") if p.suffix in (".c", ".h", ".proto"))
    yield from sorted((ROOT / "docs").glob("*.md"))
    yield from (p for p in (ROOT / n for n in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")) if p.exists())


def files_below(path):
    return sorted(p for p in path.rglob("*") if p.suffix in (".c", ".h", ".proto", ".md")) if path.is_dir() else [path]


def main(arguments):
    if arguments[:1] in (["-h"], ["--help"]):
        print(__doc__)
        return 0
    counting = "--count" in arguments
    named = [pathlib.Path(a).resolve() for a in arguments if a != "--count"]
    checker = Checker()
    for path in (f for n in named for f in files_below(n)) if named else all_files():
        checker.check(path)
    if counting:
        found = collections.Counter(path.parent for path, *_ in checker.problems)
        for folder in sorted(checker.words):
            words = checker.words[folder]
            print(f"{folder.relative_to(ROOT)!s:28} {words:7} words {found[folder]:5} findings {1000 * found[folder] / max(1, words):6.1f} per 1000")
    else:
        for path, line, kind, message in checker.problems:
            print(f"{path.relative_to(ROOT)}:{line}: {kind}: {message}")
    kinds = collections.Counter(kind for *_, kind, _ in checker.problems)
    print(f"check_language: {sum(checker.words.values())} words, {len(checker.problems)} findings"
          + "".join(f", {kind} {count}" for kind, count in sorted(kinds.items())), file=sys.stderr)  # fmt: skip
    return 1 if checker.problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
