/* slow */
/* Millions of random events through five policies. Cheap invariants are verified at every event,
 * O(n) checks from time to time (S1, S2, S5):
 * - no batch starts after its latest instant;
 * - none starts before its frontrun (symphony) or window (window);
 * - no executor is idle beside a batch that could run (eager);
 * - no request runs twice, and none is forgotten.
 *
 * test_policy_million [EVENTS [SEED]]: at least EVENTS events in all. An event is an arrival, a
 * cancellation, or the start or end of a task. All requests have one row and devices follow their
 * profiles, which makes the conditions exact. */
#include "base/prng.h"
#include "unit/policy/drive.h"

#include <inttypes.h>

enum { MODELS = 6, EXECUTORS = 6, CHUNK = 50000, FULL_EVERY = 5000, WINDOW_NS = 4000000 };

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const int64_t standard_events = 400000;
#else
static const int64_t standard_events = 12000000;
#endif

enum rule { PARTIAL, FULL, EAGER, WINDOW, SHEPHERD };
struct subject {
    const char *name;
    enum rule rule;
    struct tt_option options[1];
    int32_t option_count;
};
static const struct subject subjects[] = {
    {.name = "deferred", .rule = PARTIAL},
    {.name = "adaptive", .rule = PARTIAL},
    {.name = "symphony", .rule = FULL},
    /* Without re-forming, a candidate that has become too large for its head is as published: it
     * waits until the next arrival or its head's deadline, beside idle executors. */
    {.name = "eager", .rule = EAGER, .options = {{"reform_at_latest", "on"}}, .option_count = 1},
    {.name = "window", .rule = WINDOW, .options = {{"max_delay", "4ms"}}, .option_count = 1},
    {.name = "shepherd", .rule = SHEPHERD, .options = {{"abort_cost", "1ms"}}, .option_count = 1},
};

struct world {
    struct drive drive;
    struct tt_prng prng;
    const struct subject *subject;
    int32_t *last_task; /* of each arrival; -1: it never ran */
    int32_t oldest;     /* every earlier arrival has left */
    int64_t cancellations, instants;
    uint64_t seed;
};

static void demand(const struct world *self, bool holds, const char *what) {
    if (holds)
        return;
    fprintf(stderr, "%s, seed %" PRIu64 ", at %" PRId64 " ns: %s\n", self->subject->name,
            self->seed, self->drive.now, what);
    abort();
}

/* Called at every start: the conditions on the batch and on its instant. */
static int64_t starts(void *context, const struct tt_task *task, int64_t planned_ns) {
    struct world *self = context;
    const struct tt_step_model *model = self->drive.mechanism.models[task->model];
    int64_t free_at = self->drive.executors[task->executor].free_at;
    int64_t start_at = tt_instant_max(task->start_at, free_at);
    const struct tt_request *head = task->items[0].request;
    enum rule rule = self->subject->rule;
    demand(self, start_at == self->drive.now, "a batch was queued behind another");
    for (int32_t i = 0; i < task->count; i++) {
        const struct tt_request *request = task->items[i].request;
        int32_t index = (int32_t)(intptr_t)request->user;
        int32_t before = self->last_task[index];
        if (rule != WINDOW)
            demand(self, start_at + planned_ns <= request->deadline_at, "a late start");
        if (before >= 0)
            demand(self, self->drive.tasks[before].outcome == TT_OUTCOME_ABORTED, "runs twice");
        self->last_task[index] = (int32_t)task->number;
    }
    if (rule == FULL && task->rows < model->max_batch) {
        int64_t frontrun = head->deadline_at - tt_profile_latency(model->whole, task->rows + 1, 0);
        demand(self, start_at >= frontrun, "before its frontrun");
    }
    if (rule == WINDOW && task->rows < model->max_batch)
        demand(self, start_at >= head->arrived_at + WINDOW_NS, "before its window passed");
    return planned_ns;
}

static bool has_idle_executor(const struct world *self) {
    for (int32_t e = 0; e < EXECUTORS; e++)
        if (tt_mechanism_oldest(&self->drive.mechanism, e) == NULL)
            return true;
    return false;
}

static void check_instant(const struct world *self) {
    const struct tt_mechanism *m = &self->drive.mechanism;
    int64_t gone = 0, running = 0;
    for (int32_t i = 0; i <= TT_ENDING_CANCELLED; i++)
        gone += m->ended[i];
    demand(self, m->arrivals == gone + m->requests.in_use, "the bookkeeping is inconsistent");
    for (int32_t e = 0; e < EXECUTORS; e++)
        for (int32_t k = 0; k < m->executors[e].queued; k++)
            running += m->executors[e].tasks[(m->executors[e].oldest + k) % 2].count;
    demand(self, running <= m->requests.in_use, "more run than are here");
    if (self->subject->rule == EAGER && has_idle_executor(self))
        demand(self, running == m->requests.in_use, "an executor idles while requests wait");
}

/* O(n): no request waits beyond the instant until which it could be served; all internal checks. */
static void check_all(struct world *self) {
    tt_mechanism_check(&self->drive.mechanism);
    while (self->oldest < self->drive.next_arrival && !self->drive.arrivals[self->oldest].request)
        self->oldest++;
    for (int32_t i = self->oldest; i < self->drive.next_arrival; i++) {
        const struct tt_request *request = self->drive.arrivals[i].request;
        if (!request || request->state != TT_REQUEST_QUEUED || self->subject->rule == WINDOW)
            continue;
        demand(self, request->deadline_at > self->drive.now, "forgotten in a queue");
    }
}

static void cancel_one(struct world *self) {
    int32_t back = (int32_t)tt_prng_below(&self->prng, 40);
    int32_t index = self->drive.next_arrival - 1 - back;
    if (index < 0 || !self->drive.arrivals[index].request)
        return;
    self->cancellations++;
    tt_mechanism_cancelled(&self->drive.mechanism, self->drive.now,
                           self->drive.arrivals[index].request);
}

/* As drive_run, to the end, with these checks and cancellations. */
static void run(struct world *self) {
    struct drive *drive = &self->drive;
    while (drive->next_arrival < drive->arrival_count || drive->mechanism.requests.in_use > 0) {
        int64_t at = tt_mechanism_next_at(&drive->mechanism);
        if (drive->next_arrival < drive->arrival_count)
            at = tt_instant_min(at, drive->arrivals[drive->next_arrival].at);
        const struct tt_heap_entry *top = tt_heap_top(&drive->ends);
        if (top)
            at = tt_instant_min(at, top->key);
        demand(self, at != TT_NEVER, "requests wait for nothing");
        demand(self, at > drive->now, "time stands still");
        drive->now = at;
        drive_tell(drive);
        if (tt_prng_below(&self->prng, 32) == 0)
            cancel_one(self);
        tt_mechanism_decide(&drive->mechanism, at);
        check_instant(self);
        if (++self->instants % FULL_EVERY == 0)
            check_all(self);
    }
    check_all(self);
}

static void check_ends(const struct world *self) {
    for (int32_t i = 0; i < self->drive.arrival_count; i++) {
        const struct drive_outcome *outcome = &self->drive.outcomes[i];
        demand(self, !outcome->refused, "refused though there was room");
        demand(self, outcome->ended_at != TT_NEVER, "never left");
        int32_t t = self->last_task[i];
        bool ran = t >= 0 && self->drive.tasks[t].outcome == TT_OUTCOME_DONE;
        if (outcome->ending == TT_ENDING_DONE)
            demand(self, ran && self->drive.tasks[t].end_at == outcome->ended_at, "done unrun");
        if (outcome->ending == TT_ENDING_DROPPED)
            demand(self, !ran, "dropped after it ran");
        demand(self, outcome->ending != TT_ENDING_FAILED, "failed though nothing fails");
    }
}

static void add_arrivals(struct world *self) {
    int64_t at = 0, mean_ns = 100000;
    for (int32_t i = 0; i < CHUNK; i++) {
        if (i % 1000 == 0) /* from idle to overload */
            mean_ns = (int64_t)(40 + tt_prng_below(&self->prng, 1500)) * TT_US;
        if (tt_prng_below(&self->prng, 8) > 0) /* otherwise a burst */
            at += (int64_t)tt_prng_below(&self->prng, (uint64_t)mean_ns * 2);
        int32_t model = (int32_t)tt_prng_below(&self->prng, MODELS);
        struct drive_arrival *arrival = drive_arrival(&self->drive, at, model);
        if (tt_prng_below(&self->prng, 16) == 0)
            arrival->deadline_at = at + (int64_t)tt_prng_below(&self->prng, 60) * TT_MS;
    }
}

/* One domain from its first arrival to its last ending; returns the events. */
static int64_t chunk(const struct subject *subject, uint64_t seed) {
    struct world world = {.subject = subject, .seed = seed};
    tt_prng_init(&world.prng, seed, (uint64_t)(subject - subjects));
    struct drive_model models[MODELS];
    for (int32_t m = 0; m < MODELS; m++) {
        int64_t alpha = (int64_t)(200 + tt_prng_below(&world.prng, 2000)) * TT_US;
        int64_t beta = (int64_t)tt_prng_below(&world.prng, 8000) * TT_US;
        models[m] = (struct drive_model){
            .alpha_ns = alpha,
            .beta_ns = beta,
            .slo_ns = 2 * (alpha + beta) + (int64_t)tt_prng_below(&world.prng, 40000) * TT_US,
            .max_batch = 2 + (int32_t)tt_prng_below(&world.prng, 31)};
    }
    struct drive_setup setup = {.models = models,
                                .model_count = MODELS,
                                .executors = EXECUTORS,
                                .policy = subject->name,
                                .options = subject->options,
                                .option_count = subject->option_count,
                                .abort_ns = TT_MS,
                                .duration = starts};
    drive_open(&world.drive, &setup);
    world.drive.setup.context = &world;
    world.last_task = malloc(CHUNK * sizeof(*world.last_task));
    tt_assert(world.last_task != NULL);
    memset(world.last_task, -1, CHUNK * sizeof(*world.last_task));
    add_arrivals(&world);
    run(&world);
    check_ends(&world);
    int64_t events = world.drive.arrival_count + world.cancellations + 2 * world.drive.task_count;
    free(world.last_task);
    drive_close(&world.drive);
    return events;
}

static int64_t number(const char *text, const char *what) {
    char *end;
    long long value = strtoll(text, &end, 10);
    if (*text == '\0' || *end != '\0' || value < 1) {
        fprintf(stderr, "%s is '%s'; it should be a whole number of at least 1\n", what, text);
        exit(2);
    }
    return value;
}

int main(int argc, char **argv) {
    int64_t wanted = argc > 1 ? number(argv[1], "EVENTS") : standard_events;
    uint64_t seed = argc > 2 ? (uint64_t)number(argv[2], "SEED") : 1;
    int64_t events[TT_COUNT(subjects)] = {0}, total = 0, shown = 0;
    printf("%" PRId64 " events, seeds from %" PRIu64 "\n", wanted, seed);
    for (; total < wanted; seed++) {
        for (size_t i = 0; i < TT_COUNT(subjects); i++) {
            int64_t more = chunk(&subjects[i], seed);
            events[i] += more;
            total += more;
        }
        if (total - shown >= 10000000) {
            printf("%" PRId64 " events, seed %" PRIu64 "\n", total, seed);
            fflush(stdout);
            shown = total;
        }
    }
    for (size_t i = 0; i < TT_COUNT(subjects); i++)
        printf("%-10s %12" PRId64 " events\n", subjects[i].name, events[i]);
    printf("%-10s %12" PRId64 " events, last seed %" PRIu64 "\n", "all", total, seed - 1);
    return 0;
}
