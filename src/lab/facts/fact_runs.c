#include "lab/facts/fact_runs.h"

#include "lab/experiment/experiment.h"
#include "lab/facts/fact_compute.h"
#include "lab/facts/fact_group.h"
#include "lab/facts/fact_sweep.h"
#include "lab/scenario/allocate.h"
#include "lab/sweep/jobs.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_SEEDS = TT_FACT_SEEDS_MAX, MAX_ALTERNATIVES = 64, MEDIAN = -1 };

/* Whether the value is a statistic over requests: more seeds and longer runs make it better. */
static bool is_sampled(enum tt_fact_kind kind) { return kind <= TT_FACT_DEVICES; }

/* What finds a measure, and its path in the result: nested keys. */
static const struct measure {
    enum tt_fact_kind kind;
    const char *keys[3];
} measures[] = {
    [TUTTI__FACT_MEASURE__GOODPUT] = {TT_FACT_SEARCH, {"goodput_per_s"}},
    [TUTTI__FACT_MEASURE__GOODPUT_MEDIAN_BATCH] = {TT_FACT_SEARCH, {"median_batch"}},
    [TUTTI__FACT_MEASURE__GOOD_PER_S] = {TT_FACT_RUN, {"total", "good_per_s"}},
    [TUTTI__FACT_MEASURE__BAD_RATE] = {TT_FACT_RUN, {"total", "bad_rate"}},
    [TUTTI__FACT_MEASURE__MEDIAN_BATCH] = {TT_FACT_RUN, {"total", "batch", "median"}},
    [TUTTI__FACT_MEASURE__UTILISATION] = {TT_FACT_RUN, {"utilisation"}},
    [TUTTI__FACT_MEASURE__TRACE] = {TT_FACT_GOLDEN, {"share"}},
    [TUTTI__FACT_MEASURE__STAGGERED_BOUND] = {TT_FACT_BOUND, {"staggered"}},
    [TUTTI__FACT_MEASURE__UNCOORDINATED_BOUND] = {TT_FACT_BOUND, {"uncoordinated"}},
    [TUTTI__FACT_MEASURE__QUEUEING_MEAN_MS] = {TT_FACT_RUN, {"total", "queueing_ms", "mean"}},
    [TUTTI__FACT_MEASURE__QUEUEING_P99_MS] = {TT_FACT_RUN, {"total", "queueing_ms", "p99"}},
    [TUTTI__FACT_MEASURE__QUEUEING_MAX_MS] = {TT_FACT_RUN, {"total", "queueing_ms", "max"}},
    [TUTTI__FACT_MEASURE__DEVICES_USED] = {TT_FACT_RUN, {"devices_used"}},
    [TUTTI__FACT_MEASURE__ADD_DEVICES] = {TT_FACT_RUN, {"advice", "add_devices"}},
    [TUTTI__FACT_MEASURE__RELEASE_DEVICES] = {TT_FACT_RUN, {"advice", "release_devices"}},
    [TUTTI__FACT_MEASURE__DEVICES_NEEDED] = {TT_FACT_DEVICES, {"devices_needed"}},
    [TUTTI__FACT_MEASURE__LATENCY_MEAN_MS] = {TT_FACT_RUN, {"total", "latency_ms", "mean"}},
    [TUTTI__FACT_MEASURE__LATENCY_P99_MS] = {TT_FACT_RUN, {"total", "latency_ms", "p99"}},
    [TUTTI__FACT_MEASURE__LATENCY_P90_MS] = {TT_FACT_RUN, {"total", "latency_ms", "p90"}},
    [TUTTI__FACT_MEASURE__GOOD_SHARE] = {TT_FACT_RUN, {"total", "bad_rate"}},
    [TUTTI__FACT_MEASURE__OVERLAP_TIME_SHARE] = {TT_FACT_PLAN, {"time_share"}},
    [TUTTI__FACT_MEASURE__OVERLAP_GAIN] = {TT_FACT_PLAN, {"gain"}},
    [TUTTI__FACT_MEASURE__BEST_WORKERS_MS] = {TT_FACT_PLAN, {"workers_ms"}},
    [TUTTI__FACT_MEASURE__BEST_WORKERS] = {TT_FACT_PLAN, {"workers"}},
    [TUTTI__FACT_MEASURE__BEST_WORKERS_IN_TURNS_MS] = {TT_FACT_PLAN, {"turns_ms"}},
    [TUTTI__FACT_MEASURE__BEST_WORKERS_IN_TURNS] = {TT_FACT_PLAN, {"turns"}},
    [TUTTI__FACT_MEASURE__ONES_OVER_BEST_IN_TURNS] = {TT_FACT_PLAN, {"ones_over_best"}},
    [TUTTI__FACT_MEASURE__SCHEDULER_PER_S] = {TT_FACT_SCHEDULER, {"requests_per_s"}},
    [TUTTI__FACT_MEASURE__FLEET_BAD_RATE] = {TT_FACT_FLEET, {"bad_settled"}},
    [TUTTI__FACT_MEASURE__FLEET_OVER_FEWEST] = {TT_FACT_FLEET, {"over_fewest"}},
    [TUTTI__FACT_MEASURE__PLACE_IMBALANCE_RATE] = {TT_FACT_PLACEMENT, {"imbalance_rate"}},
    [TUTTI__FACT_MEASURE__PLACE_IMBALANCE_MEMORY] = {TT_FACT_PLACEMENT, {"imbalance_memory"}},
    [TUTTI__FACT_MEASURE__RANDOM_IMBALANCE_RATE] = {TT_FACT_PLACEMENT, {"random_rate"}},
    [TUTTI__FACT_MEASURE__RANDOM_IMBALANCE_MEMORY] = {TT_FACT_PLACEMENT, {"random_memory"}},
    [TUTTI__FACT_MEASURE__SWEEP_GAIN] = {.kind = TT_FACT_SWEEP},
};

/* A run or search, shared by the facts that need it. */
struct piece {
    char *key; /* equal for equal runs */
    enum tt_fact_kind kind;
    const Tutti__Fact *fact; /* the first fact that needs it; TT_FACT_GOLDEN: the only one */
    struct tt_scenario scenario;
    struct tt_goodput_options goodput;
    struct tt_fact_sweep *sweep; /* TT_FACT_SWEEP: replaces scenario and seeds */
    char *placement;             /* TT_FACT_PLACEMENT: the problem's file; replaces the scenario */
    int32_t seeds;               /* of all facts */
    int32_t median_seeds;        /* of facts that say nothing of seeds */
    json_t *results[MAX_SEEDS];  /* NULL: not known */
};

struct tt_fact_runs {
    const struct tt_facts *facts;
    struct tt_fact_runs_options options;
    struct piece *pieces;
    int32_t count, capacity;
    struct tt_fact_group *ours, *relative_to; /* per fact, its pieces */
    int32_t *job_piece, *job_seed;
    int32_t jobs, finished;
};

/* ---- preparation ---- */

static void shorten(struct piece *piece) {
    piece->seeds = 1;
    if (piece->goodput.precision < 0.01)
        piece->goodput.precision = 0.01;
    struct tt_scenario *s = &piece->scenario;
    if (s->duration_ns != TT_NEVER && s->duration_ns > s->warm_up_ns)
        s->duration_ns = s->warm_up_ns + (s->duration_ns - s->warm_up_ns) / 5;
}

/* `said`: the run in the file, for messages; `run`: the same with the changes of one alternative.
 */
static enum tt_err open_experiment(const struct tt_facts *facts, const Tutti__FactRun *said,
                                   const Tutti__FactRun *run, const char *path,
                                   struct tt_experiment *experiment, struct tt_error *why) {
    enum tt_err err = tt_experiment_open(experiment, path, why);
    if (err)
        return err;
    for (size_t i = 0; !err && i < run->n_set; i++) {
        char *name = tt_copy_text(run->set[i]), *equals = strchr(name, '=');
        tt_assert(equals != NULL); /* as tt_facts_open checked */
        *equals = '\0';
        err = tt_experiment_set(experiment, name, equals + 1, why);
        if (err == TT_ERR_INVALID) {
            struct tt_error inner = *why;
            (void)tt_facts_wrong(facts, said, "set", why, "%s", inner.text);
        }
        free(name);
    }
    if (err)
        tt_experiment_close(experiment);
    return err;
}

static enum tt_err build(const struct tt_facts *facts, const Tutti__FactRun *said,
                         const Tutti__FactRun *run, const char *path, struct piece *piece,
                         struct tt_error *why) {
    if (piece->kind == TT_FACT_PLACEMENT) {
        if (run->n_set > 0)
            return tt_facts_wrong(facts, said, NULL, why,
                                  "a placement problem is used as it is; remove `%s`", run->set[0]);
        piece->placement = tt_copy_text(path);
        piece->seeds = 1;
        return TT_OK;
    }
    struct tt_experiment experiment;
    enum tt_err err = open_experiment(facts, said, run, path, &experiment, why);
    if (err)
        return err;
    if (piece->kind == TT_FACT_SWEEP)
        return tt_fact_sweep_new(&experiment, &piece->sweep, why);
    err = tt_experiment_build(&experiment, &piece->scenario, why);
    const Tutti__ExperimentGoodput *goodput = experiment.message->goodput;
    piece->goodput = tt_experiment_goodput(&experiment);
    piece->seeds = goodput && goodput->seeds > 0 ? goodput->seeds : 1;
    if (piece->seeds > MAX_SEEDS)
        piece->seeds = MAX_SEEDS;
    if (!is_sampled(piece->kind))
        piece->seeds = 1;
    tt_experiment_close(&experiment);
    return err;
}

static enum tt_err check_sweep(const struct tt_fact_runs *self, const Tutti__FactRun *run,
                               const struct piece *piece, struct tt_error *why) {
    if (!self->options.sweeps)
        return tt_facts_wrong(self->facts, run, NULL, why,
                              "this takes long: --sweeps FOLDER says where to keep what is found");
    if (access(self->options.sweeps, W_OK | X_OK) != 0)
        return tt_fail(TT_ERR_INVALID, why, "--sweeps %s: %s; name a folder that can be written",
                       self->options.sweeps, strerror(errno));
    if (tt_fact_sweep_count(piece->sweep, run->sweep) == 0)
        return tt_facts_wrong(self->facts, run->sweep, NULL, why,
                              "the sweeps of %s have no workload like that under %s and %s",
                              run->experiment, run->sweep->policy, run->sweep->over);
    return TT_OK;
}

/* The index of the piece for `run`, an earlier one if it is equal; -1 on error. */
static int32_t add_piece(struct tt_fact_runs *self, const Tutti__Fact *fact,
                         const Tutti__FactRun *said, const Tutti__FactRun *run,
                         enum tt_err *out_err, struct tt_error *why) {
    struct tt_text key, path;
    tt_text_init(&key);
    tt_text_init(&path);
    enum tt_fact_kind kind = measures[run->measure].kind;
    tt_assert(kind == TT_FACT_SWEEP || measures[run->measure].keys[0]); /* it has its row */
    tt_text_printf(&key, "%d|%s|%s", (int)kind, kind == TT_FACT_GOLDEN ? fact->id : "",
                   run->experiment);
    for (size_t i = 0; i < run->n_set; i++)
        tt_text_printf(&key, "|%s", run->set[i]);
    tt_text_printf(&path, "%s%s", run->experiment[0] == '/' ? "" : self->facts->folder,
                   run->experiment);
    int32_t at = 0;
    while (at < self->count && strcmp(self->pieces[at].key, tt_text_string(&key)) != 0)
        at++;
    *out_err = TT_OK;
    if (at == self->count) {
        tt_assert(at < self->capacity);
        struct piece *piece = &self->pieces[at];
        *piece =
            (struct piece){.kind = kind, .fact = fact, .key = tt_copy_text(tt_text_string(&key))};
        self->count++;
        *out_err = build(self->facts, said, run, tt_text_string(&path), piece, why);
        if (!*out_err && self->options.quick && is_sampled(kind))
            shorten(piece);
        piece->median_seeds = piece->seeds;
    }
    if (!*out_err && kind != TT_FACT_SWEEP && !self->options.quick && fact->seeds > 0 &&
        fact->seeds > self->pieces[at].seeds)
        self->pieces[at].seeds = fact->seeds;
    if (!*out_err && kind == TT_FACT_SWEEP)
        *out_err = check_sweep(self, run, &self->pieces[at], why);
    tt_text_fini(&key);
    tt_text_fini(&path);
    return *out_err ? -1 : at;
}

static enum tt_err add_group(struct tt_fact_runs *self, const Tutti__Fact *fact,
                             const Tutti__FactRun *run, struct tt_fact_group *group,
                             struct tt_error *why) {
    tt_fact_group_init(group, fact, run);
    enum tt_err err = TT_OK;
    for (int32_t i = 0; !err && i < group->overs * group->alternatives; i++) {
        Tutti__FactRun one;
        tt_fact_group_run(fact, run, i, &one);
        group->pieces[i] = add_piece(self, fact, run, &one, &err, why);
        free(one.set);
    }
    return err;
}

/* The maximum number of pieces that the chosen facts need. */
static size_t count_runs(const struct tt_facts *facts) {
    size_t count = 0;
    for (size_t i = 0; i < facts->message->n_fact; i++) {
        const Tutti__Fact *fact = facts->message->fact[i];
        if (!fact->ours)
            continue;
        int32_t sides = tt_fact_group_alternatives(fact->ours);
        if (fact->relative_to)
            sides += tt_fact_group_alternatives(fact->relative_to);
        count += (size_t)tt_fact_group_overs(fact) * (size_t)sides;
    }
    return count;
}

enum tt_err tt_fact_runs_new(const struct tt_facts *facts, const bool *chosen,
                             const struct tt_fact_runs_options *options,
                             struct tt_fact_runs **out_runs, struct tt_error *why) {
    size_t n = facts->message->n_fact;
    struct tt_fact_runs *self = tt_allocate(1, sizeof(*self));
    self->facts = facts;
    self->options = *options;
    self->capacity = (int32_t)count_runs(facts);
    self->pieces = tt_allocate((size_t)self->capacity, sizeof(*self->pieces));
    self->ours = tt_allocate(n, sizeof(*self->ours));
    self->relative_to = tt_allocate(n, sizeof(*self->relative_to));
    enum tt_err err = TT_OK;
    for (size_t i = 0; !err && i < n; i++) {
        const Tutti__Fact *fact = facts->message->fact[i];
        if (!chosen[i] || !fact->ours)
            continue;
        err = add_group(self, fact, fact->ours, &self->ours[i], why);
        if (!err && fact->relative_to)
            err = add_group(self, fact, fact->relative_to, &self->relative_to[i], why);
    }
    for (int32_t p = 0; !err && p < self->count; p++)
        self->jobs += self->pieces[p].seeds;
    self->job_piece = tt_allocate((size_t)self->jobs, sizeof(*self->job_piece));
    self->job_seed = tt_allocate((size_t)self->jobs, sizeof(*self->job_seed));
    int32_t job = 0;
    for (int32_t p = 0; !err && p < self->count; p++)
        for (int32_t s = 0; s < self->pieces[p].seeds; s++, job++) {
            self->job_piece[job] = p;
            self->job_seed[job] = s;
        }
    if (err)
        tt_fact_runs_free(self);
    else
        *out_runs = self;
    return err;
}

void tt_fact_runs_free(struct tt_fact_runs *take_runs) {
    if (!take_runs)
        return;
    for (int32_t p = 0; p < take_runs->count; p++) {
        struct piece *piece = &take_runs->pieces[p];
        for (int32_t s = 0; s < MAX_SEEDS; s++)
            json_decref(piece->results[s]);
        tt_scenario_fini(&piece->scenario);
        tt_fact_sweep_free(piece->sweep);
        free(piece->placement);
        free(piece->key);
    }
    free(take_runs->pieces);
    for (size_t i = 0; i < take_runs->facts->message->n_fact; i++) {
        tt_fact_group_fini(&take_runs->ours[i]);
        tt_fact_group_fini(&take_runs->relative_to[i]);
    }
    free(take_runs->ours);
    free(take_runs->relative_to);
    free(take_runs->job_piece);
    free(take_runs->job_seed);
    free(take_runs);
}

/* ---- running ---- */

static json_t *compute(struct tt_fact_runs *self, int32_t job, enum tt_err *out_err,
                       struct tt_error *why) {
    struct piece *piece = &self->pieces[self->job_piece[job]];
    struct tt_scenario scenario = piece->scenario; /* a shallow copy with a seed of its own */
    scenario.seed += (uint64_t)self->job_seed[job];
    struct tt_fact_job one = {.kind = piece->kind,
                              .scenario = &scenario,
                              .goodput = &piece->goodput,
                              .trace = piece->fact->trace,
                              .placement = piece->placement,
                              .stop = self->options.stop};
    json_t *out = NULL;
    *out_err = tt_fact_compute(&one, &out, why);
    return out;
}

static void work(void *context, int32_t index, struct tt_text *result) {
    struct tt_error why;
    enum tt_err err;
    json_t *value = compute(context, index, &err, &why);
    tt_jobs_answer(value, err, &why, result);
}

static void done(void *context, int32_t index, const char *result) {
    struct tt_fact_runs *self = context;
    struct piece *piece = &self->pieces[self->job_piece[index]];
    piece->results[self->job_seed[index]] = json_loads(result, 0, NULL);
    self->finished++;
    if (self->options.progress)
        self->options.progress(self->finished, self->jobs);
}

enum tt_err tt_fact_runs_run(struct tt_fact_runs *self, struct tt_error *why) {
    struct tt_jobs jobs = {.count = self->jobs,
                           .workers = self->options.workers,
                           .context = self,
                           .work = work,
                           .done = done,
                           .stop = self->options.stop};
    enum tt_err err = tt_jobs_run(&jobs, why);
    bool stopped = self->options.stop && *self->options.stop;
    for (int32_t j = 0; !err && j < self->jobs; j++) {
        const struct piece *piece = &self->pieces[self->job_piece[j]];
        const json_t *result = piece->results[self->job_seed[j]];
        const json_t *error = json_object_get(result, "error");
        if (error)
            err = tt_fail((enum tt_err)json_integer_value(json_object_get(result, "code")), why,
                          "%s: %s", piece->fact->id, json_string_value(error));
        else if (!result && !stopped)
            err = tt_fail(TT_ERR_INTERNAL, why, "%s: a worker process died", piece->fact->id);
    }
    struct tt_fact_sweep_options sweeps = {.folder = self->options.sweeps,
                                           .workers = self->options.workers,
                                           .stop = self->options.stop,
                                           .progress = self->options.progress};
    for (int32_t p = 0; !err && p < self->count; p++)
        if (self->pieces[p].kind == TT_FACT_SWEEP)
            err = tt_fact_sweep_run(self->pieces[p].sweep, &sweeps, why);
    return err;
}

/* ---- values ---- */

static double read_measure(const json_t *result, Tutti__FactMeasure measure) {
    const json_t *value = result;
    const char *const *keys = measures[measure].keys;
    for (size_t i = 0; i < TT_COUNT(measures[0].keys) && keys[i]; i++)
        value = json_object_get(value, keys[i]);
    if (!json_is_number(value) || json_is_true(json_object_get(result, "interrupted")))
        return NAN;
    double number = json_number_value(value);
    return measure == TUTTI__FACT_MEASURE__GOOD_SHARE ? 1 - number : number;
}

/* The value with that seed; MEDIAN: the median over the seeds (the lower one of two). NAN if one is
 * not known. */
static double value_of(const struct piece *piece, const Tutti__FactRun *run, int32_t seed,
                       struct tt_text *note) {
    if (seed != MEDIAN)
        return read_measure(piece->results[seed < piece->seeds ? seed : 0], run->measure);
    if (piece->kind == TT_FACT_SWEEP)
        return tt_fact_sweep_value(piece->sweep, run->sweep, note);
    double values[MAX_SEEDS] = {0};
    for (int32_t s = 0; s < piece->median_seeds; s++) {
        values[s] = read_measure(piece->results[s], run->measure);
        if (isnan(values[s]))
            return NAN;
    }
    tt_fact_group_sort(values, piece->median_seeds);
    double low = values[0], high = values[piece->median_seeds - 1];
    if (note && piece->median_seeds > 1 && high > low)
        tt_text_printf(note, "%s%d seeds: %.5g .. %.5g", note->length ? "; " : "",
                       piece->median_seeds, low, high);
    const char *left = json_string_value(json_object_get(piece->results[0], "note"));
    if (note && left && left[0])
        tt_text_printf(note, "%s%s", note->length ? "; " : "", left);
    return values[(piece->median_seeds - 1) / 2];
}

/* The value of one side of a fact under its change number `over`. */
static double side(const struct tt_fact_runs *self, const Tutti__FactRun *run,
                   const struct tt_fact_group *group, int32_t over, int32_t seed,
                   struct tt_text *note) {
    double values[MAX_ALTERNATIVES];
    tt_assert(group->alternatives <= MAX_ALTERNATIVES);
    struct tt_text *own = group->alternatives == 1 && group->overs == 1 ? note : NULL;
    for (int32_t i = 0; i < group->alternatives; i++) {
        const struct piece *piece = &self->pieces[group->pieces[over * group->alternatives + i]];
        values[i] = value_of(piece, run, seed, own);
    }
    return tt_fact_group_choose(run, values, group->alternatives);
}

static double mean_of(const struct tt_fact_runs *self, const Tutti__Fact *fact,
                      struct tt_text *out_note) {
    double sum = 0;
    for (size_t i = 0; i < fact->n_mean_of; i++) {
        const Tutti__Fact *part = tt_facts_find(self->facts, fact->mean_of[i]);
        size_t index = 0;
        while (self->facts->message->fact[index] != part)
            index++;
        double value = tt_fact_runs_value(self, index, NULL);
        if (out_note)
            tt_text_printf(out_note, "%s%.4g", i ? ", " : "the mean of ", value);
        sum += value;
    }
    return sum / (double)fact->n_mean_of;
}

/* The value with that seed, or with the median of each run. */
static double value_with(const struct tt_fact_runs *self, size_t fact, int32_t seed,
                         struct tt_text *out_note) {
    const Tutti__Fact *f = self->facts->message->fact[fact];
    const struct tt_fact_group *mine = &self->ours[fact], *others = &self->relative_to[fact];
    double sum = 0, least = INFINITY, most = -INFINITY;
    for (int32_t over = 0; over < mine->overs; over++) {
        double value = side(self, f->ours, mine, over, seed, others->pieces ? NULL : out_note);
        const char *comma = out_note && out_note->length && over ? ", " : "";
        if (others->pieces) {
            double other = side(self, f->relative_to, others, over, seed, NULL);
            if (out_note && !isnan(value) && !isnan(other))
                tt_text_printf(out_note, "%s%.5g / %.5g", comma, value, other);
            value = other != 0 ? value / other : NAN;
        } else if (out_note && mine->overs > 1) {
            tt_text_printf(out_note, "%s%.5g", comma, value);
        }
        sum += value;
        least = fmin(least, value);
        most = fmax(most, value);
    }
    if (isnan(sum) || f->reduce == TUTTI__FACT_REDUCE__MEAN_OF_ALL)
        return sum / mine->overs;
    return f->reduce == TUTTI__FACT_REDUCE__LEAST_OF_ALL ? least : most;
}

double tt_fact_runs_value(const struct tt_fact_runs *self, size_t fact, struct tt_text *out_note) {
    const Tutti__Fact *f = self->facts->message->fact[fact];
    if (f->n_mean_of > 0)
        return mean_of(self, f, out_note);
    if (!self->ours[fact].pieces)
        return NAN;
    int32_t seeds = self->options.quick ? 0 : f->seeds;
    if (seeds <= 1)
        return value_with(self, fact, MEDIAN, out_note);
    double values[MAX_SEEDS];
    for (int32_t s = 0; s < seeds; s++)
        values[s] = value_with(self, fact, s, NULL);
    return tt_fact_group_seeds(values, seeds, out_note);
}
