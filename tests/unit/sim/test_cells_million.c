/* slow */
/* C3, C5, C7: millions of random events through the policies for recurrent models: cellular, merged
 * and padded. Invariants:
 * - every request ends once, cancelled ones included;
 * - a request that is done has run all its cells, and none twice;
 * - no batch exceeds the maximum of its type;
 * - no executor is idle beside cells that it could run;
 * - a subgraph is on one executor at a time.
 * The O(n) internal checks run from time to time.
 *
 * test_cells_million [EVENTS [SEED]]: at least EVENTS events in all. An event is an arrival, an
 * ending or a finished task. */
#include "base/instant.h"
#include "base/prng.h"
#include "policy/policy.h"
#include "sim/simulation.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MODELS = 3, STEPS = 3, EXECUTORS = 3, DEPTH = 5, CHUNK = 40000, FULL_EVERY = 400 };
enum { LONGEST_OUTPUT = 8, LONGEST_INPUT = 12, VERY_LONG = 330, MAX_EXECUTORS = 4 };

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const int64_t standard_events = 300000;
#else
static const int64_t standard_events = 10000000;
#endif

struct subject {
    const char *policy;
    struct tt_option options[3];
    int32_t option_count;
    bool by_cells;
};
static const struct subject subjects[] = {
    {.policy = "cellular", .by_cells = true},
    {.policy = "cellular",
     .options = {{"max_tasks", "3"}, {"min_batch", "3"}, {"ahead", "1"}},
     .option_count = 3,
     .by_cells = true},
    {.policy = "cellular",
     .options = {{"choose", "slack"}, {"drop", "deadline"}},
     .option_count = 2,
     .by_cells = true},
    {.policy = "merged", .by_cells = true},
    {.policy = "merged",
     .options = {{"max_requests", "3"}, {"merge_cell", "100ns"}},
     .option_count = 2,
     .by_cells = true},
    {.policy = "merged",
     .options = {{"max_requests", "7"}, {"order", "level"}},
     .option_count = 2,
     .by_cells = true},
    {.policy = "padded"},
    {.policy = "padded", .options = {{"width", "3"}, {"max_batch", "2"}}, .option_count = 2},
};

/* The externally visible state of a request. */
struct known {
    struct tt_sim_arrival arrival;
    int64_t cells; /* cells that have ended, or run */
    bool ended;
};

struct world {
    const struct subject *subject;
    struct tt_prng prng;
    uint64_t seed;
    int32_t arrivals; /* in this chunk */
    int64_t at, pace_ns;
    struct known *known; /* [CHUNK] */
    int64_t ended, done, cancelled, dropped;
    struct tt_profile *profiles[MODELS][STEPS], *whole[MODELS];
    struct tt_step steps[MODELS][STEPS];
    struct tt_step_model models[MODELS];
    int32_t quantiles[TT_QUANTILES];
    struct tt_simulation *simulation;
    int64_t free_at[MAX_EXECUTORS];
};

static void demand(const struct world *self, bool holds, const char *what) {
    if (holds)
        return;
    fprintf(stderr, "%s, seed %" PRIu64 ", at %" PRId64 " ns: %s\n", self->subject->policy,
            self->seed, tt_simulation_now(self->simulation), what);
    abort();
}

/* A chain, an encoder and decoder with a static step between them, a tree. */
static const struct {
    int32_t steps, tree;
    enum tt_step_kind kinds[STEPS];
    int32_t largest[STEPS];
} shapes[MODELS] = {
    {.steps = 1, .kinds = {TT_STEP_ENCODER}, .largest = {6}},
    {.steps = 3, .kinds = {TT_STEP_ENCODER, TT_STEP_STATIC, TT_STEP_DECODER}, .largest = {8, 3, 4}},
    {.steps = 2, .tree = TT_TREE_RANDOM, .largest = {8, 5}},
};

static void make_models(struct world *self) {
    for (int32_t p = 0; p < TT_QUANTILES; p++)
        self->quantiles[p] = LONGEST_OUTPUT;
    for (int32_t m = 0; m < MODELS; m++) {
        struct tt_error why;
        int32_t smallest = shapes[m].largest[0];
        for (int32_t s = 0; s < shapes[m].steps; s++) {
            tt_assert(tt_profile_new_linear(300 + 70 * s, 4000 + 900 * m, shapes[m].largest[s],
                                            &self->profiles[m][s], &why) == TT_OK);
            self->steps[m][s] = (struct tt_step){
                .name = "step", .profile = self->profiles[m][s], .kind = shapes[m].kinds[s]};
            smallest = shapes[m].largest[s] < smallest ? shapes[m].largest[s] : smallest;
        }
        tt_assert(tt_profile_new_linear(2000, 30000, smallest, &self->whole[m], &why) == TT_OK);
        self->models[m] = (struct tt_step_model){
            .name = "model",
            .step_count = shapes[m].steps,
            .steps = self->steps[m],
            .whole = self->whole[m],
            .slo_ns = TT_NEVER,
            .max_batch = smallest,
            .output_quantiles = m == 1 ? self->quantiles : NULL,
        };
    }
}

static bool next(void *context, struct tt_sim_arrival *out) {
    struct world *self = context;
    struct tt_prng *prng = &self->prng;
    if (self->arrivals == CHUNK)
        return false;
    if (tt_prng_below(prng, 2000) == 0) /* calm, busy, overloaded */
        self->pace_ns = 4000 << tt_prng_below(prng, 6);
    self->at += (int64_t)tt_prng_below(prng, (uint64_t)(2 * self->pace_ns));
    bool is_long = tt_prng_below(prng, 500) == 0, cancels = tt_prng_below(prng, 8) == 0;
    int32_t models =
        self->subject->by_cells ? MODELS : MODELS - 1; /* trees are for policies by cells only */
    int32_t rows = tt_prng_below(prng, 6) ? 1 : 2;
    *out = (struct tt_sim_arrival){
        .at = self->at,
        .deadline_at = self->at + (int64_t)tt_prng_below(prng, 4000000),
        .cancel_at = cancels ? self->at + (int64_t)tt_prng_below(prng, 600000) : TT_NEVER,
        .model = (int32_t)tt_prng_below(prng, (uint64_t)models),
        .rows = rows,
        .length = is_long ? VERY_LONG : 1 + (int32_t)tt_prng_below(prng, LONGEST_INPUT),
        .output_length = (int32_t)tt_prng_below(prng, LONGEST_OUTPUT + 2),
        .priority = tt_prng_below(prng, 10) == 0,
        .exit_step = -1};
    self->known[self->arrivals++] = (struct known){.arrival = *out};
    return true;
}

/* The minimum number of cells that it takes; a decoder may run some beyond its end. */
static int64_t least_cells(const struct known *known) {
    const struct tt_sim_arrival *a = &known->arrival;
    int64_t output = a->output_length < LONGEST_OUTPUT ? a->output_length : LONGEST_OUTPUT;
    switch (a->model) {
    case 0: return a->length;
    case 1: return a->length + 1 + (output > 0 ? output : 1);
    default: return 2 * (int64_t)a->length - 1;
    }
}

static void started(void *context, int64_t now, const struct tt_task *task, int32_t step,
                    const int64_t *numbers) {
    struct world *self = context;
    int32_t rows = 0;
    demand(self, now >= self->free_at[task->executor], "two tasks at once on an executor");
    self->free_at[task->executor] = TT_NEVER;
    for (int32_t i = 0; i < task->count; i++) {
        struct known *known = &self->known[numbers[i]];
        rows += known->arrival.rows;
        demand(self, known->arrival.model == task->model, "a request of another model");
        demand(self,
               !task->items[i].subgraph || task->items[i].subgraph->executor == task->executor,
               "a subgraph's cells on an executor that it is not pinned to");
        known->cells++;
    }
    demand(self, rows == task->rows, "rows miscounted");
    demand(self, rows <= shapes[task->model].largest[step], "a batch above its type's largest");
}

static void step_over(void *context, int64_t now, const struct tt_task *task, int32_t step) {
    struct world *self = context;
    (void)step;
    self->free_at[task->executor] = now;
}

static void ended(void *context, const struct tt_sim_ending *ending) {
    struct world *self = context;
    struct known *known = &self->known[ending->number];
    demand(self, !known->ended, "an ending told twice");
    known->ended = true;
    self->ended++;
    if (ending->ending != TT_ENDING_DONE) {
        bool asked = known->arrival.cancel_at <= ending->ended_at;
        demand(self, ending->ending != TT_ENDING_CANCELLED || asked,
               "cancelled without a cancellation");
        self->cancelled += ending->ending == TT_ENDING_CANCELLED;
        self->dropped += ending->ending == TT_ENDING_DROPPED;
        return;
    }
    self->done++;
    int64_t least = least_cells(known), most = least + (known->arrival.model == 1 ? DEPTH : 0);
    demand(self, known->cells >= least, "done before all its cells were");
    demand(self, !self->subject->by_cells || known->cells <= most, "a cell ran twice");
}

/* An idle executor leaves no work behind that it could run. */
static void demand_no_idle_executor(const struct world *self) {
    const struct tt_mechanism *m = tt_simulation_mechanism(self->simulation);
    bool idle = false;
    for (int32_t e = 0; e < EXECUTORS; e++)
        idle |= m->executors[e].queued == 0;
    bool merged = strcmp(self->subject->policy, "merged") == 0;
    for (int32_t i = 0; idle && i < m->requests.chunk_count * TT_REQUEST_CHUNK; i++) {
        const struct tt_request *request =
            tt_request_pool_at((struct tt_request_pool *)&m->requests, (uint32_t)i);
        if (request->state == TT_REQUEST_FREE || request->reported)
            continue;
        if (!request->graph ||
            merged) { /* merged: a request whose graph is on a busy executor may wait */
            int64_t on = request->policy_word - 1;
            bool waits = request->graph ? on < 0 || m->executors[on].queued == 0
                                        : request->state == TT_REQUEST_QUEUED;
            demand(self, !waits, "an executor idles beside a request");
            continue;
        }
        for (int32_t k = 0; k < request->graph->subgraph_count; k++) {
            const struct tt_cell_subgraph *subgraph = &request->graph->subgraphs[k];
            bool free = subgraph->executor < 0 || m->executors[subgraph->executor].queued == 0;
            demand(self, subgraph->waits_for > 0 || subgraph->ready == 0 || !free,
                   "an executor idles beside a ready cell");
        }
    }
}

static enum tt_err create(void *context, struct tt_mechanism *mechanism, struct tt_error *why) {
    const struct world *self = context;
    struct tt_policy_setup setup = {.domain = mechanism,
                                    .options = self->subject->options,
                                    .option_count = self->subject->option_count};
    return tt_policy_create(mechanism, self->subject->policy, &setup, why);
}

static int64_t run_chunk(const struct subject *subject, uint64_t seed, struct known *known) {
    struct world *self = calloc(1, sizeof(*self));
    tt_assert(self != NULL);
    *self = (struct world){.subject = subject, .seed = seed, .pace_ns = 32000, .known = known};
    tt_prng_init(&self->prng, seed, 0);
    make_models(self);
    struct tt_sim_model models[MODELS] = {{0}};
    for (int32_t m = 0; m < MODELS; m++)
        models[m] = (struct tt_sim_model){.step_model = &self->models[m],
                                          .tree = (enum tt_tree)shapes[m].tree};
    struct tt_sim_device devices[EXECUTORS] = {
        {.executors = 1}, {.executors = 1}, {.executors = 1}};
    struct tt_sim_options options = {.models = models,
                                     .model_count = subject->by_cells ? MODELS : MODELS - 1,
                                     .devices = devices,
                                     .device_count = EXECUTORS,
                                     .depth = DEPTH,
                                     .jitter_permille = 100,
                                     .seed = seed,
                                     .source = {.context = self, .next = next},
                                     .observer = {self, ended, started, step_over},
                                     .create_policy = create,
                                     .create_context = self};
    struct tt_error why = {{0}};
    if (tt_simulation_new(&options, &self->simulation, &why)) {
        fprintf(stderr, "%s: %s\n", subject->policy, why.text);
        abort();
    }
    for (int64_t instant = 1; tt_simulation_run(self->simulation, 1); instant++) {
        if (instant % FULL_EVERY != 0)
            continue;
        tt_mechanism_check(tt_simulation_mechanism(self->simulation));
        demand_no_idle_executor(self);
    }
    const struct tt_mechanism *mechanism = tt_simulation_mechanism(self->simulation);
    tt_mechanism_check(mechanism);
    demand(self, self->ended == CHUNK, "a request never ended");
    demand(self, mechanism->requests.in_use == 0 && mechanism->reported == 0, "a request stays");
    demand(self, self->done > CHUNK / 10 && self->cancelled > 0,
           "a world in which nothing happens");
    int64_t events = tt_simulation_events(self->simulation);
    tt_simulation_free(self->simulation);
    for (int32_t m = 0; m < MODELS; m++) {
        tt_profile_free(self->whole[m]);
        for (int32_t s = 0; s < STEPS; s++)
            tt_profile_free(self->profiles[m][s]);
    }
    free(self);
    return events;
}

int main(int argc, char **argv) {
    int64_t wanted = argc > 1 ? strtoll(argv[1], NULL, 10) : standard_events;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    struct known *known = calloc(CHUNK, sizeof(*known));
    tt_assert(known != NULL);
    printf("seeds from %" PRIu64 " on\n", seed);
    int64_t events[TT_COUNT(subjects)] = {0}, all = 0;
    while (all < wanted)
        for (size_t i = 0; i < TT_COUNT(subjects); i++) {
            int64_t own = run_chunk(&subjects[i], seed++, known);
            events[i] += own;
            all += own;
        }
    for (size_t i = 0; i < TT_COUNT(subjects); i++)
        printf("%s %zu: %" PRId64 " events\n", subjects[i].policy, i, events[i]);
    free(known);
    return 0;
}
