"""Reads what callgrind writes: the cost of each function with all that it calls, and how often it was called."""

import re

NAME = re.compile(r"\((\d+)\)(?: (.*))?$")


class Profile:
    """Functions by name; what recurs, or seems to, has a name of its own for each level: f'2 is in f's cost."""

    def __init__(self, path):
        self.names = {}
        self.inclusive = {}  # by name
        self.calls = {}  # by name
        self._read(path)

    def _name(self, text):
        number, name = NAME.match(text).groups()
        if name:
            self.names[number] = name
        return self.names[number]

    def _read(self, path):
        function = callee = None
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("fn="):
                    function = self._name(line[3:].strip())
                elif line.startswith("cfn="):
                    callee = self._name(line[4:].strip())
                elif line.startswith("calls="):
                    calls = int(line[6:].split()[0])
                    cost = int(next(file).split()[1])
                    self.calls[callee] = self.calls.get(callee, 0) + calls
                    self._add(function, cost)
                elif function and line[0] in "0123456789+-*":
                    fields = line.split()
                    self._add(function, int(fields[1]) if len(fields) > 1 else 0)

    def _add(self, function, cost):
        self.inclusive[function] = self.inclusive.get(function, 0) + cost

    def cost(self, *functions):
        return sum(self.inclusive.get(name, 0) for name in functions)
