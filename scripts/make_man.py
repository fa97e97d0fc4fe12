#!/usr/bin/env python3
"""Writes the man pages: tutti.1, and tutti-VERB.1 for every verb.

    make_man.py --tutti build/tutti --out build/man

`tutti --describe` prints each verb's texts and table of flags, which are also the source of --help. What is longer than
a help text (background, examples, files) comes from docs/man/VERB.mdoc, mdoc with its own .Sh lines, which follow the
page's OPTIONS. A verb without such a file has a page all the same.
"""
import argparse
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
FILES = (
    ("share/doc/tutti/README.md", "what to read first"),
    ("share/doc/tutti/docs", "the documents, and figures measured"),
    ("share/doc/tutti/examples", "clients, a policy and an engine"),
    ("share/tutti/experiments", "experiments of papers, for tutti experiment"),
    ("share/tutti/monitoring", "alert rules for Prometheus and a dashboard for Grafana"),
)


def run(program, *arguments):
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit("make_man: %s %s: %s" % (program, " ".join(arguments), done.stderr.strip()))
    return done.stdout


def escape(text):
    """Text as roff takes it: no requests, no escapes, dashes and quotes that can be copied."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    return re.sub(r"^([.])", r"\\&\1", text)


def macro(text):
    """A word behind a macro: names of macros must not be read as such."""
    return " ".join("\\&" + escape(word) for word in text.split())


def help_of(row):
    default = " ".join(filter(None, (row.get("default"), row.get("unit"))))
    return row["help"] + (" (default %s)" % default if "default" in row else "")


def put_options(out, rows):
    out.append(".Sh OPTIONS")
    is_open = False
    for row in rows:
        is_heading = row["type"] == "heading"
        if is_open and is_heading:
            out.append(".El")
        if is_heading:
            out.append('.Ss "%s"' % escape(row["name"]))
        elif not is_open:
            out.append(".Bl -tag -width Ds")
        is_open = not is_heading
        if is_open:
            out += [".It " + macro(row["shown"]), escape(help_of(row))]
    out.append(".El")


def page(verb, date, verbs):
    name = verb["name"]
    out = [".Dd " + date, ".Dt TUTTI-%s 1" % name.upper(), ".Os"]
    out += [".Sh NAME", ".Nm tutti-" + name, ".Nd " + escape(verb["summary"]), ".Sh SYNOPSIS"]
    out += [".Bd -literal -compact", escape("tutti %s %s" % (name, verb["usage"])), ".Ed"]
    out.append(".Sh DESCRIPTION")
    for paragraph in verb["description"].split("\n\n"):
        out += [".Pp", escape(paragraph)]
    put_options(out, verb["rows"])
    prose = ROOT / "docs" / "man" / (name + ".mdoc")
    text = out + (prose.read_text().splitlines() if prose.exists() else [])
    if ".Sh EXIT STATUS" not in text:
        text += exit_status()
    others = [v["name"] for v in verbs if v is not verb]
    text += [".Sh SEE ALSO", ".Xr tutti 1 ,"]
    text += [".Xr tutti\\-%s 1%s" % (v, " ," if v != others[-1] else "") for v in others]
    return "\n".join(text) + "\n"


def exit_status():
    return [
        ".Sh EXIT STATUS",
        "0: success.",
        "1: the work failed, or a required condition does not hold.",
        "2: usage error; one line on standard error says what is wrong and what would be right.",
        "130: interrupted.",
    ]


def overview(verbs, date):
    out = [".Dd " + date, ".Dt TUTTI 1", ".Os", ".Sh NAME", ".Nm tutti"]
    out += [".Nd an inference server that batches requests so that they meet their deadlines"]
    out += [".Sh SYNOPSIS", ".Bd -literal -compact", "tutti VERB [OPTIONS]", "tutti VERB \\-\\-help"]
    out += ["tutti \\-\\-version", ".Ed", ".Sh DESCRIPTION", "The verbs:"]
    out.append(".Bl -tag -width Ds")
    for verb in verbs:
        out += [".It " + macro(verb["name"]), escape(verb["summary"]), ".Pq see Xr tutti\\-%s 1" % verb["name"]]
    out += [".El", *exit_status(), ".Sh FILES", "Below the prefix of the installation:"]
    out += [".Bl -tag -width Ds"]
    for path, content in FILES:
        out += [".It Pa " + escape(path), escape(content)]
    out += [".El", ".Sh SEE ALSO"]
    names = [verb["name"] for verb in verbs]
    out += [".Xr tutti\\-%s 1%s" % (v, " ," if v != names[-1] else "") for v in names]
    return "\n".join(out) + "\n"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tutti", required=True, metavar="FILE")
    parser.add_argument("--out", required=True, metavar="DIR")
    options = parser.parse_args()
    seconds = os.environ.get("SOURCE_DATE_EPOCH")  # for reproducible builds
    today = datetime.datetime.fromtimestamp(int(seconds), datetime.timezone.utc) if seconds else None
    today = today or datetime.datetime.now(datetime.timezone.utc)
    date = "%s %d, %d" % (today.strftime("%B"), today.day, today.year)
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    verbs = json.loads(run(options.tutti, "--describe"))
    (out / "tutti.1").write_text(overview(verbs, date))
    for verb in verbs:
        (out / ("tutti-%s.1" % verb["name"])).write_text(page(verb, date, verbs))


main()
