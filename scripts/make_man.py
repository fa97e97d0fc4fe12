#!/usr/bin/env python3
"""Writes the man pages: tutti.1, and tutti-VERB.1 for every verb.

    make_man.py --tutti build/tutti --out build/man

One source for each thing: what a flag means is said by `tutti VERB --help` alone, and stands in the page as it stands
there; what is longer than a help text (background, examples, files) comes from docs/man/VERB.mdoc, mdoc with its own
.Sh lines, which follow the page's OPTIONS. A verb without such a file has a page all the same.
"""
import argparse
import datetime
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
OPTION = re.compile(r"^ {1,4}(--[a-z0-9].*?)(?: {2,}(\S.*))?$")


def run(program, *arguments):
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit("make_man: %s %s: %s" % (program, " ".join(arguments), done.stderr.strip()))
    return done.stdout


def verbs_of(program):
    """{verb: summary}"""
    listing = run(program, "--help").split("Verbs:", 1)[1].split("\n\n", 1)[0]
    return dict(re.findall(r"^  (\S+) +(\S.*)$", listing, re.M))


def escape(text):
    """Text as roff takes it: no requests, no escapes, dashes and quotes that can be copied."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    return re.sub(r"^([.])", r"\\&\1", text)


def macro(text):
    """A word behind a macro: names of macros must not be read as such."""
    return " ".join("\\&" + escape(word) for word in text.split())


def parse(text):
    """(synopses, blocks); a block is ("text", lines), ("head", line) or ("option", flags, lines)."""
    synopses, blocks, after_blank = [], [], False
    for line in text.splitlines():
        option = OPTION.match(line)
        if line.startswith("Usage:") or (not blocks and line.startswith("       tutti ")):
            synopses.append(line.removeprefix("Usage:").strip())
        elif option:
            blocks.append(("option", option.group(1).strip(), [option.group(2)] if option.group(2) else []))
        elif not line.strip():
            blocks.append(("text", []))
            after_blank = True
            continue
        elif line.startswith("     ") and blocks and blocks[-1][0] == "option":
            blocks[-1][2].append(line.strip())
        elif after_blank and line.endswith(":") and not line.startswith(" "):
            blocks.append(("head", line[:-1]))
        elif blocks and blocks[-1][0] == "text":
            blocks[-1][1].append(line.strip())
        else:
            blocks.append(("text", [line.strip()]))
        after_blank = False
    return synopses, [b for b in blocks if b[0] != "text" or b[1]]


def put_options(out, blocks):
    out.append(".Sh OPTIONS")
    is_open = False
    for block in blocks:
        if block[0] != "option" and is_open:
            out.append(".El")
            is_open = False
        if block[0] == "head":
            out.append('.Ss "%s"' % escape(block[1]))
        elif block[0] == "text":
            out += [".Pp"] + [escape(line) for line in block[1]]
        else:
            if not is_open:
                out.append(".Bl -tag -width Ds")
            is_open = True
            out.append(".It " + macro(block[1]))
            out += [escape(line) for line in block[2]]
    if is_open:
        out.append(".El")


def page(program, verb, summary, date, verbs):
    synopses, blocks = parse(run(program, verb, "--help"))
    first = next((i for i, b in enumerate(blocks) if b[0] != "text"), len(blocks))
    out = [".Dd " + date, ".Dt TUTTI-%s 1" % verb.upper(), ".Os"]
    out += [".Sh NAME", ".Nm tutti-" + verb, ".Nd " + escape(summary), ".Sh SYNOPSIS"]
    for synopsis in synopses:
        out += [".Bd -literal -compact", escape(synopsis), ".Ed"]
    out.append(".Sh DESCRIPTION")
    for block in blocks[:first]:
        out += [".Pp"] + [escape(line) for line in block[1]]
    if first == 0:
        out.append("This page says what the program itself says with \\-\\-help.")
    if blocks[first:]:
        put_options(out, blocks[first:])
    prose = ROOT / "docs" / "man" / (verb + ".mdoc")
    text = out + (prose.read_text().splitlines() if prose.exists() else [])
    if ".Sh EXIT STATUS" not in text:
        text += exit_status()
    others = [v for v in verbs if v != verb]
    text += [".Sh SEE ALSO", ".Xr tutti 1 ,"]
    text += [".Xr tutti\\-%s 1%s" % (v, " ," if v != others[-1] else "") for v in others]
    return "\n".join(text) + "\n"


def exit_status():
    return [
        ".Sh EXIT STATUS",
        "0: done.",
        "1: it ran and failed, or what was asked for does not hold.",
        "2: the request makes no sense; one line on standard error says what would be right.",
        "130: interrupted.",
    ]


def overview(verbs, date):
    out = [".Dd " + date, ".Dt TUTTI 1", ".Os", ".Sh NAME", ".Nm tutti"]
    out += [".Nd an inference server that batches requests so that they meet their deadlines"]
    out += [".Sh SYNOPSIS", ".Bd -literal -compact", "tutti VERB [OPTIONS]", "tutti VERB \\-\\-help"]
    out += ["tutti \\-\\-version", ".Ed", ".Sh DESCRIPTION", "Everything is a verb:"]
    out.append(".Bl -tag -width Ds")
    for verb, summary in verbs.items():
        out += [".It " + macro(verb), escape(summary), ".Pq see Xr tutti\\-%s 1" % verb]
    out += [".El", *exit_status(), ".Sh SEE ALSO"]
    names = list(verbs)
    out += [".Xr tutti\\-%s 1%s" % (v, " ," if v != names[-1] else "") for v in names]
    return "\n".join(out) + "\n"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tutti", required=True, metavar="FILE")
    parser.add_argument("--out", required=True, metavar="DIR")
    options = parser.parse_args()
    seconds = os.environ.get("SOURCE_DATE_EPOCH")  # for builds that are to be the same again
    today = datetime.datetime.fromtimestamp(int(seconds), datetime.timezone.utc) if seconds else None
    today = today or datetime.datetime.now(datetime.timezone.utc)
    date = "%s %d, %d" % (today.strftime("%B"), today.day, today.year)
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    verbs = verbs_of(options.tutti)
    (out / "tutti.1").write_text(overview(verbs, date))
    for verb, summary in verbs.items():
        (out / ("tutti-%s.1" % verb)).write_text(page(options.tutti, verb, summary, date, verbs))


main()
