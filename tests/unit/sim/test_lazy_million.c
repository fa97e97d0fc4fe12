/* slow */
/* Millions of random events through the lazy policy in the simulator, with static and recurrent
 * models side by side. Invariants at every event (L1, L2, L5):
 * - a batch is of one model and one step, within its maximum size, each member at its next step;
 * - if inputs are padded, all of a batch have the same padded length, from the first step to the
 *   last;
 * - the executor is never idle beside a waiting request;
 * - no request is forgotten, and one that is done has run exactly the steps of its lengths;
 * - the slack check holds: a request admitted on top of others that could then be in time is in
 *   time. So is every request whose own batch, served one by one, would have been in time.
 *
 * test_lazy_million [EVENTS [SEED]]: an event is a step, an arrival or an ending. */
#include "base/instant.h"
#include "base/prng.h"
#include "policy/lazy/lazy.h"
#include "sim/simulation.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MODELS = 4, STEPS = 6, CHUNK = 20000, FULL_EVERY = 2000, MAX_BATCH = 24, LIMIT = 12 };

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const int64_t standard_events = 200000;
#else
static const int64_t standard_events = 10000000;
#endif

struct request {
    struct tt_sim_arrival arrival;
    int64_t deadline_holds_at; /* the end that was guaranteed at admission; TT_NEVER: none */
    int32_t step, round, walked, padded;
    bool started, ended;
};

struct world {
    struct tt_simulation *simulation;
    struct tt_prng prng;
    struct tt_step_model models[MODELS];
    struct tt_step steps[MODELS][STEPS];
    struct tt_profile *profiles[MODELS][STEPS + 1];
    int32_t quantiles[TT_QUANTILES];
    struct request *requests;
    int32_t next, late, promised;
    int64_t events;
    uint64_t seed;
};

static void demand(const struct world *self, bool holds, const char *what, int64_t number) {
    if (holds)
        return;
    fprintf(stderr, "seed %" PRIu64 ", at %" PRId64 " ns, request %" PRId64 ": %s\n", self->seed,
            tt_simulation_now(self->simulation), number, what);
    abort();
}

static int32_t rounds(const struct request *request, enum tt_step_kind kind) {
    int32_t n = kind == TT_STEP_ENCODER ? request->arrival.length : request->arrival.output_length;
    return n < LIMIT || kind == TT_STEP_ENCODER ? n : LIMIT;
}

/* Moves the request on as its lengths require; the model's step count: it has ended. */
static void walk(const struct tt_step_model *model, struct request *request) {
    enum tt_step_kind kind = model->steps[request->step].kind;
    struct tt_step_block block = tt_step_block_of(model, request->step);
    request->walked++;
    if (kind != TT_STEP_STATIC && request->step == block.last) {
        if (++request->round < rounds(request, kind)) {
            request->step = block.first;
            return;
        }
        request->round = 0;
    }
    request->step++;
}

/* The time that a request needs alone, if outputs are as long as possible. */
static int64_t alone(const struct world *self, const struct request *from) {
    const struct tt_step_model *model = &self->models[from->arrival.model];
    struct request request = *from;
    int64_t sum_ns = 0;
    request.arrival.output_length = LIMIT;
    while (request.step < model->step_count) {
        sum_ns += tt_profile_latency(model->steps[request.step].profile, request.arrival.rows, 0);
        walk(model, &request);
    }
    return sum_ns;
}

/* If a request starts for the first time: stores its guarantee. */
static void came_in(struct world *self, int64_t now, const int64_t *numbers, int32_t count) {
    const struct tt_policy *policy = tt_simulation_mechanism(self->simulation)->policy;
    bool on_others = tt_lazy_stack_of(policy, 0)->depth > 1;
    int64_t sum_ns = 0;
    int32_t fresh = 0;
    for (int32_t i = 0; i < count; i++)
        fresh += !self->requests[numbers[i]].started;
    if (fresh == 0)
        return;
    on_others = on_others || fresh < count; /* merged at once */
    for (int32_t i = 0; i < count; i++)
        sum_ns += alone(self, &self->requests[numbers[i]]);
    for (int32_t i = 0; i < count; i++) {
        struct request *request = &self->requests[numbers[i]];
        if (request->started)
            continue;
        request->started = true;
        request->deadline_holds_at = now + (on_others ? alone(self, request) : sum_ns);
    }
}

static void on_started(void *context, int64_t now, const struct tt_task *task, int32_t step,
                       const int64_t *numbers) {
    struct world *self = context;
    const struct tt_step_model *model = &self->models[task->model];
    self->events++;
    demand(self, task->rows <= model->max_batch, "too many rows", numbers[0]);
    came_in(self, now, numbers, task->count);
    for (int32_t i = 0; i < task->count; i++) {
        struct request *request = &self->requests[numbers[i]];
        demand(self, request->started && !request->ended, "runs out of turn", numbers[i]);
        demand(self, request->arrival.model == task->model, "in a strange batch", numbers[i]);
        demand(self, request->step == step, "at another step", numbers[i]);
        if (step == 0)
            request->padded = task->length;
        bool alike = task->length >= request->arrival.length && task->length == request->padded;
        demand(self, !model->padded || alike, "padded anew in the middle", numbers[i]);
        walk(model, request);
    }
}

static void on_ended(void *context, const struct tt_sim_ending *ending) {
    struct world *self = context;
    struct request *request = &self->requests[ending->number];
    const struct tt_step_model *model = &self->models[ending->model];
    self->events += 2;
    demand(self, !request->ended, "ended twice", ending->number);
    request->ended = true;
    if (ending->ending == TT_ENDING_CANCELLED)
        return;
    demand(self, ending->ending == TT_ENDING_DONE, "not done", ending->number);
    demand(self, request->step == model->step_count, "left before its end", ending->number);
    bool promised = request->deadline_holds_at <= request->arrival.deadline_at;
    bool late = ending->ended_at > request->arrival.deadline_at;
    self->promised += promised;
    self->late += late;
    demand(self, !(promised && late), "late though it was promised", ending->number);
}

static bool next_arrival(void *context, struct tt_sim_arrival *out) {
    struct world *self = context;
    if (self->next == CHUNK)
        return false;
    *out = self->requests[self->next++].arrival;
    return true;
}

static enum tt_err create(void *context, struct tt_mechanism *mechanism, struct tt_error *why) {
    struct world *self = context;
    static const char *const patience[] = {"0", "0.5", "1"};
    static const char *const foreign[] = {"shorter", "slack", "never", "turns"};
    struct tt_option options[] = {{"dec_timesteps", "12"},
                                  {"foreign", foreign[tt_prng_below(&self->prng, 4)]},
                                  {"patience", patience[tt_prng_below(&self->prng, 3)]}};
    struct tt_policy_setup setup = {
        .domain = mechanism, .options = options, .option_count = TT_COUNT(options)};
    return tt_policy_create(mechanism, "lazy", &setup, why);
}

static void draw_models(struct world *self) {
    for (int32_t p = 0; p < TT_QUANTILES; p++)
        self->quantiles[p] = 1 + p * (LIMIT - 1) / (TT_QUANTILES - 1);
    for (int32_t m = 0; m < MODELS; m++) {
        struct tt_step_model *model = &self->models[m];
        int64_t alpha = 0, beta = 0;
        struct tt_error why;
        *model =
            (struct tt_step_model){.name = "model",
                                   .steps = self->steps[m],
                                   .step_count = 1 + (int32_t)tt_prng_below(&self->prng, STEPS),
                                   .slo_ns = 100 * TT_MS,
                                   .padded = m == 1,
                                   .output_quantiles = self->quantiles,
                                   .max_batch = MAX_BATCH};
        for (int32_t s = 0; s <= model->step_count; s++) {
            bool whole = s == model->step_count;
            int64_t a = whole ? alpha : (int64_t)tt_prng_below(&self->prng, 30) * TT_US;
            int64_t b = whole ? beta : (int64_t)(1 + tt_prng_below(&self->prng, 200)) * TT_US;
            tt_assert(!tt_profile_new_linear(a, b, MAX_BATCH, &self->profiles[m][s], &why));
            alpha += a;
            beta += b;
            if (whole)
                break;
            self->steps[m][s] = (struct tt_step){
                .name = "step",
                .profile = self->profiles[m][s],
                .kind = m < 2 ? TT_STEP_STATIC : (enum tt_step_kind)tt_prng_below(&self->prng, 3)};
        }
        model->whole = self->profiles[m][model->step_count];
    }
}

static void draw_arrivals(struct world *self) {
    int64_t at = 0, mean_ns = TT_MS;
    for (int32_t i = 0; i < CHUNK; i++) {
        if (i % 500 == 0) /* from idle to overload */
            mean_ns = (int64_t)(100 + tt_prng_below(&self->prng, 4000)) * TT_US;
        if (tt_prng_below(&self->prng, 8) > 0) /* otherwise a burst */
            at += (int64_t)tt_prng_below(&self->prng, (uint64_t)mean_ns * 2);
        bool goes = tt_prng_below(&self->prng, 24) == 0;
        int64_t patience = (int64_t)tt_prng_below(&self->prng, 30000) * TT_US;
        int64_t slo = (int64_t)(2000 + tt_prng_below(&self->prng, 98000)) * TT_US;
        self->requests[i] = (struct request){
            .deadline_holds_at = TT_NEVER,
            .arrival = {.at = at,
                        .deadline_at = at + slo,
                        .cancel_at = goes ? at + patience : TT_NEVER,
                        .model = (int32_t)tt_prng_below(&self->prng, MODELS),
                        .rows = 1 + (int32_t)(tt_prng_below(&self->prng, 8) == 0),
                        .length = 1 + (int32_t)tt_prng_below(&self->prng, 8),
                        .output_length = 1 + (int32_t)tt_prng_below(&self->prng, LIMIT + 2),
                        .exit_step = -1}};
    }
}

static int64_t chunk(uint64_t seed, int64_t *promised, int64_t *late) {
    struct world *self = calloc(1, sizeof(*self));
    tt_assert(self != NULL);
    self->seed = seed;
    self->requests = calloc(CHUNK, sizeof(*self->requests));
    tt_assert(self->requests != NULL);
    tt_prng_init(&self->prng, seed, 1);
    draw_models(self);
    draw_arrivals(self);
    struct tt_sim_model models[MODELS] = {0};
    for (int32_t m = 0; m < MODELS; m++)
        models[m].step_model = &self->models[m];
    struct tt_sim_device device = {.executors = 1};
    struct tt_sim_options options = {
        .models = models,
        .model_count = MODELS,
        .devices = &device,
        .device_count = 1,
        .depth = 1,
        .source = {.context = self, .next = next_arrival},
        .observer = {.context = self, .ended = on_ended, .step_started = on_started},
        .create_policy = create,
        .create_context = self};
    struct tt_error why;
    tt_assert(!tt_simulation_new(&options, &self->simulation, &why));
    const struct tt_mechanism *mechanism = tt_simulation_mechanism(self->simulation);
    for (int64_t instant = 1; tt_simulation_run(self->simulation, 1); instant++) {
        bool idles = mechanism->executors[0].queued == 0;
        demand(self, !idles || mechanism->requests.in_use == 0, "the executor idles", self->next);
        if (instant % FULL_EVERY == 0)
            tt_mechanism_check(mechanism);
    }
    for (int32_t i = 0; i < CHUNK; i++)
        demand(self, self->requests[i].ended, "never left", i);
    int64_t events = self->events;
    *promised += self->promised;
    *late += self->late;
    tt_simulation_free(self->simulation);
    for (int32_t m = 0; m < MODELS; m++)
        for (int32_t s = 0; s <= self->models[m].step_count; s++)
            tt_profile_free(self->profiles[m][s]);
    free(self->requests);
    free(self);
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
    int64_t events = 0, promised = 0, late = 0;
    printf("%" PRId64 " events, seeds from %" PRIu64 "\n", wanted, seed);
    for (; events < wanted; seed++)
        events += chunk(seed, &promised, &late);
    printf("%" PRId64 " events, last seed %" PRIu64 "; %" PRId64 " promised and in time, %" PRId64
           " late\n",
           events, seed - 1, promised, late);
    tt_assert(promised > 0 && late > 0); /* both results of the check occurred */
    return 0;
}
