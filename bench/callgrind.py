"""Reads what callgrind writes: the cost of each function with all that it calls, and how often it was called."""

import re

NAME = re.compile(r"\((\d+)\)(?: (.*))?$")


class Profile:
    """Functions by name; what recurs, or seems to, has a name of its own for each level: f'2 is in f's cost. Of the
    events that were counted, the sum of those asked for."""

    def __init__(self, path, events=("Ir",)):
        self.events = events
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
                if line.startswith("events:"):
                    self.columns = [1 + line.split()[1:].index(event) for event in self.events]
                elif line.startswith("fn="):
                    function = self._name(line[3:].strip())
                elif line.startswith("cfn="):
                    callee = self._name(line[4:].strip())
                elif line.startswith("calls="):
                    calls = int(line[6:].split()[0])
                    cost = self._cost_in(next(file))
                    self.calls[callee] = self.calls.get(callee, 0) + calls
                    self._add(function, cost)
                elif function and line[0] in "0123456789+-*":
                    self._add(function, self._cost_in(line))

    def _cost_in(self, line):
        fields = line.split()  # zeros at the end are left out
        return sum(int(fields[column]) for column in self.columns if column < len(fields))

    def _add(self, function, cost):
        self.inclusive[function] = self.inclusive.get(function, 0) + cost

    def cost(self, *functions):
        return sum(self.inclusive.get(name, 0) for name in functions)
