"""What stands in fences of the documents: commands with their output, and code."""
import re

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)


def session(text):
    """[(command, expected lines)] of a fence of the kind console."""
    found, lines = [], text.split("\n")[:-1]
    while lines:
        line = lines.pop(0)
        if line.startswith("$ "):
            command, end = line[2:], re.search(r"<<'?(\w+)'?", line)
            while end and lines:
                command += "\n" + lines[0]
                if lines.pop(0) == end.group(1):
                    break
            found.append((command, []))
        elif found:
            found[-1][1].append(line)
    return found


def commands(path):
    """[(command, expected lines)] of all sessions of a document."""
    fences = FENCE.findall(path.read_text())
    return [one for kind, text in fences if kind == "console" for one in session(text)]
