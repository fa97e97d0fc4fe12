"""A device and its transfers in virtual time, in plain Python, for the independent models of policies."""
NEVER = 1 << 62
WHOLE = 1000000  # the demand of a task that takes the whole device


class Device:
    """Tasks run undisturbed up to a whole device; beyond it all slow down by the same factor. Whole nanoseconds of a clock of their
    own, whose part of one is lost when the tasks change."""

    def __init__(self):
        self.at = self.clock = self.part = 0
        self.tasks = {}  # executor: (end on the clock, demand)

    def demand(self):
        return max(WHOLE, sum(demand for _, demand in self.tasks.values()))

    def advance(self, now):
        done = (now - self.at) * WHOLE + self.part
        demand = self.demand()
        self.at, self.clock, self.part = now, self.clock + done // demand, done % demand

    def start(self, now, executor, ns, demand):
        self.advance(now)
        self.tasks[executor] = (self.clock + ns, demand)
        self.part = 0

    def next_at(self):
        if not self.tasks:
            return NEVER
        left = min(self.tasks.values())[0] - self.clock
        return self.at + max(0, -((self.part - left * self.demand()) // WHOLE))

    def take_ended(self, now):
        self.advance(now)
        ended = [(end, executor) for executor, (end, _) in self.tasks.items() if end <= self.clock]
        if not ended:
            return None
        del self.tasks[min(ended)[1]]
        self.part = 0
        return min(ended)[1]


class Copies:
    """One transfer after another."""

    def __init__(self, rate):
        self.rate, self.free_at = rate, 0

    def add(self, now, size):
        fixed, per_ns = self.rate or (0, 0)
        self.free_at = max(now, self.free_at) + fixed + (-(-size // per_ns) if per_ns else 0)
        return self.free_at
