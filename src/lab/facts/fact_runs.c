#include "lab/facts/fact_runs.h"

#include "lab/facts/fact_conditions.h"
#include "lab/facts/fact_group.h"
#include "lab/facts/fact_measure.h"
#include "lab/facts/fact_piece.h"
#include "lab/load/shared_gaps.h"
#include "lab/scenario/allocate.h"
#include "lab/sweep/jobs.h"
#include "lab/sweep/sweep_state.h"

#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct tt_fact_runs {
    const struct tt_facts *facts;
    struct tt_fact_runs_options options;
    struct tt_fact_piece *pieces;
    int32_t count, capacity;
    struct tt_fact_group *ours, *relative_to; /* per fact, its pieces */
    int32_t *job_piece, *job_seed;            /* first those that are to be run */
    int32_t jobs, todo, finished;
    bool in_real_time;
    struct tt_shared_gaps shared_gaps; /* of searches */
    struct tt_sweep_state state;       /* fd -1: none */
    enum tt_err state_err;
    struct tt_error state_why;
};

/* ---- preparation ---- */

static enum tt_err check_sweep(const struct tt_fact_runs *self, const Tutti__FactRun *run,
                               const struct tt_fact_piece *piece, struct tt_error *why) {
    if (self->options.sweeps && access(self->options.sweeps, W_OK | X_OK) != 0)
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
    struct tt_text key, path, changes;
    tt_text_init(&changes);
    tt_text_init(&key);
    tt_text_init(&path);
    enum tt_fact_kind kind = tt_fact_measure_kind(run);
    tt_text_printf(&key, "%d|%s|%s", (int)kind, kind == TT_FACT_GOLDEN ? fact->id : "",
                   run->experiment);
    for (size_t i = 0; i < run->n_set; i++) {
        tt_text_printf(&key, "|%s", run->set[i]);
        tt_text_printf(&changes, "%s%s", i ? " " : "", run->set[i]);
    }
    if (run->reply_ms > 0)
        tt_text_printf(&key, "|reply_ms=%.9g", run->reply_ms);
    tt_text_printf(&path, "%s%s", run->experiment[0] == '/' ? "" : self->facts->folder,
                   run->experiment);
    int32_t at = 0;
    while (at < self->count && strcmp(self->pieces[at].key, tt_text_string(&key)) != 0)
        at++;
    *out_err = TT_OK;
    if (at == self->count) {
        tt_assert(at < self->capacity);
        struct tt_fact_piece *piece = &self->pieces[at];
        *piece = (struct tt_fact_piece){.kind = kind,
                                        .fact = fact,
                                        .key = tt_copy_text(tt_text_string(&key)),
                                        .changes = tt_copy_text(tt_text_string(&changes))};
        self->count++;
        *out_err = tt_fact_piece_build(self->facts, said, run, tt_text_string(&path), piece, why);
        piece->own_seeds = piece->seeds;
        if (!*out_err && self->options.quick && tt_fact_measure_is_sampled(kind))
            tt_fact_piece_shorten(piece);
        piece->median_seeds = piece->seeds;
    }
    if (!*out_err && fact->seeds > 0 && fact->seeds < self->pieces[at].own_seeds)
        *out_err = tt_facts_wrong(self->facts, fact, "seeds", why,
                                  "seeds is %d, but %s has %d of its own (goodput.seeds); it must "
                                  "be at least that, or absent",
                                  fact->seeds, run->experiment, self->pieces[at].own_seeds);
    /* In real time always, so that what is kept of a run does not depend on the facts chosen. */
    self->pieces[at].follows_batches |=
        self->in_real_time || tt_fact_measure_follows_batches(run->measure);
    if (!*out_err && kind != TT_FACT_SWEEP && !self->options.quick && fact->seeds > 0 &&
        fact->seeds > self->pieces[at].seeds)
        self->pieces[at].seeds = fact->seeds;
    if (!*out_err && kind == TT_FACT_SWEEP)
        *out_err = check_sweep(self, run, &self->pieces[at], why);
    tt_text_fini(&changes);
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
    self->in_real_time = tt_facts_in_real_time(facts);
    self->state.fd = -1;
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
    self->todo = self->jobs;
    if (err)
        tt_fact_runs_free(self);
    else
        *out_runs = self;
    return err;
}

void tt_fact_runs_free(struct tt_fact_runs *take_runs) {
    if (!take_runs)
        return;
    for (int32_t p = 0; p < take_runs->count; p++)
        tt_fact_piece_fini(&take_runs->pieces[p]);
    free(take_runs->pieces);
    for (size_t i = 0; i < take_runs->facts->message->n_fact; i++) {
        tt_fact_group_fini(&take_runs->ours[i]);
        tt_fact_group_fini(&take_runs->relative_to[i]);
    }
    free(take_runs->ours);
    free(take_runs->relative_to);
    tt_sweep_state_close(&take_runs->state);
    free(take_runs->job_piece);
    free(take_runs->job_seed);
    free(take_runs);
}

/* ---- results that are kept ---- */

/* To be freed. */
static char *state_key(const struct tt_fact_runs *self, int32_t job) {
    const struct tt_fact_piece *piece = &self->pieces[self->job_piece[job]];
    return tt_format_text("%s|seed %" PRIu64 "|%016" PRIx64 "%s", piece->key,
                          piece->scenario.seed + (uint64_t)self->job_seed[job], piece->identity,
                          self->options.quick ? "|quick" : "");
}

/* Opens the state file, takes what it holds, and leaves the other jobs to be done, in their order.
 */
static enum tt_err take_kept(struct tt_fact_runs *self, struct tt_error *why) {
    if (!self->options.state_path)
        return TT_OK;
    enum tt_err err = tt_sweep_state_open(&self->state, self->options.state_path, 0,
                                          self->facts->message->world, why);
    int32_t left = 0;
    for (int32_t job = 0; !err && job < self->jobs; job++) {
        int32_t piece = self->job_piece[job], seed = self->job_seed[job];
        char *key = state_key(self, job);
        json_t *kept = tt_sweep_state_find(&self->state, key);
        free(key);
        if (kept) {
            self->pieces[piece].results[seed] = json_incref(kept);
            continue;
        }
        self->job_piece[job] = self->job_piece[left];
        self->job_seed[job] = self->job_seed[left];
        self->job_piece[left] = piece;
        self->job_seed[left++] = seed;
    }
    self->todo = left;
    return err;
}

/* ---- running ---- */

static json_t *compute(struct tt_fact_runs *self, int32_t job, enum tt_err *out_err,
                       struct tt_error *why) {
    struct tt_fact_piece *piece = &self->pieces[self->job_piece[job]];
    struct tt_scenario scenario = piece->scenario; /* a shallow copy with a seed of its own */
    scenario.seed += (uint64_t)self->job_seed[job];
    struct tt_goodput_options goodput = piece->goodput;
    goodput.shared_gaps = &self->shared_gaps;
    goodput.job = job;
    struct tt_fact_job one = {.kind = piece->kind,
                              .scenario = &scenario,
                              .goodput = &goodput,
                              .trace = piece->fact->trace,
                              .reply_ns = piece->reply_ns,
                              .follows_batches = piece->follows_batches,
                              .placement = piece->placement,
                              .stop = self->options.stop};
    json_t *out = NULL;
    *out_err = tt_fact_compute(&one, &out, why);
    return out;
}

static void say(const struct tt_fact_runs *self, int32_t index, const char *end) {
    const struct tt_fact_piece *piece = &self->pieces[self->job_piece[index]];
    if (!self->in_real_time || !self->options.say)
        return;
    char *line = tt_format_text("%d of %d: %s, policy %s (%s), seed %" PRIu64 "%s", index + 1,
                                self->todo, piece->fact->id, piece->scenario.policy, piece->changes,
                                piece->scenario.seed + (uint64_t)self->job_seed[index], end);
    self->options.say(line);
    free(line);
}

static void starts(void *context, int32_t index) {
    struct tt_fact_runs *self = context;
    tt_shared_gaps_lend(&self->shared_gaps, index);
}

static void work(void *context, int32_t index, struct tt_text *result) {
    struct tt_error why;
    enum tt_err err;
    say(context, index, "");
    json_t *value = compute(context, index, &err, &why);
    tt_jobs_answer(value, err, &why, result);
}

/* Keeps the result, unless it is an error or incomplete. */
static void keep(struct tt_fact_runs *self, int32_t job, json_t *result) {
    if (self->state.fd < 0 || self->state_err || !result || json_object_get(result, "error") ||
        json_is_true(json_object_get(result, "interrupted")))
        return;
    char *key = state_key(self, job);
    self->state_err = tt_sweep_state_add(&self->state, key, result, &self->state_why);
    free(key);
}

static void done(void *context, int32_t index, const char *result) {
    struct tt_fact_runs *self = context;
    struct tt_fact_piece *piece = &self->pieces[self->job_piece[index]];
    json_t *value = json_loads(result, 0, NULL);
    tt_shared_gaps_settle(&self->shared_gaps, index);
    piece->results[self->job_seed[index]] = value;
    self->finished++;
    char end[32];
    double took_s =
        json_number_value(json_object_get(json_object_get(value, "conditions"), "took_s"));
    snprintf(end, sizeof(end), ": %.0f s", took_s);
    if (took_s > 0)
        say(self, index, end);
    keep(self, index, value);
    if (self->options.progress)
        self->options.progress(self->finished, self->todo);
}

enum tt_err tt_fact_runs_run(struct tt_fact_runs *self, struct tt_error *why) {
    enum tt_err err = take_kept(self, why);
    if (err)
        return err;
    struct tt_jobs jobs = {.count = self->todo,
                           .workers = self->in_real_time ? 1 : self->options.workers,
                           .context = self,
                           .keeps_context = !self->in_real_time,
                           .starts = starts,
                           .work = work,
                           .done = done,
                           .stop = self->options.stop};
    tt_shared_gaps_init(&self->shared_gaps);
    err = self->todo > 0 ? tt_jobs_run(&jobs, why) : TT_OK;
    tt_shared_gaps_fini(&self->shared_gaps);
    if (!err && self->state_err) {
        *why = self->state_why;
        err = self->state_err;
    }
    bool stopped = self->options.stop && *self->options.stop;
    for (int32_t j = 0; !err && j < self->jobs; j++) {
        const struct tt_fact_piece *piece = &self->pieces[self->job_piece[j]];
        const json_t *result = piece->results[self->job_seed[j]];
        const json_t *error = json_object_get(result, "error");
        if (error)
            err = tt_fail((enum tt_err)json_integer_value(json_object_get(result, "code")), why,
                          "%s: %s", piece->fact->id, json_string_value(error));
        else if (!result && !stopped)
            err = tt_fail(TT_ERR_INTERNAL, why, "%s: a worker process died", piece->fact->id);
    }
    /* A sweep starts a child for each of its points, and each copies the tables of all pages. */
    for (int32_t p = 0; p < self->count; p++)
        tt_fact_piece_ran(&self->pieces[p]);
    malloc_trim(0);
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

/* The value of one side of a fact under its change number `over`. */
static double side(const struct tt_fact_runs *self, const Tutti__FactRun *run,
                   const struct tt_fact_group *group, int32_t over, int32_t seed,
                   struct tt_text *note) {
    double values[TT_FACT_GROUP_MAX];
    tt_assert(group->alternatives <= TT_FACT_GROUP_MAX);
    struct tt_text *own = group->alternatives == 1 && group->overs == 1 ? note : NULL;
    for (int32_t i = 0; i < group->alternatives; i++) {
        const struct tt_fact_piece *piece =
            &self->pieces[group->pieces[over * group->alternatives + i]];
        values[i] = tt_fact_piece_value(piece, run, seed, own);
    }
    return tt_fact_group_choose(run, values, group->alternatives);
}

static double value_of_parts(const struct tt_fact_runs *self, const Tutti__Fact *fact,
                             struct tt_text *out_note) {
    double values[TT_FACT_GROUP_MAX];
    tt_assert(fact->n_parts <= TT_FACT_GROUP_MAX);
    for (size_t i = 0; i < fact->n_parts; i++) {
        const Tutti__Fact *part = tt_facts_find(self->facts, fact->parts[i]);
        size_t index = 0;
        while (self->facts->message->fact[index] != part)
            index++;
        values[i] = tt_fact_runs_value(self, index, NULL);
        if (out_note)
            tt_text_printf(out_note, "%s%.4g", i ? ", " : "of ", values[i]);
    }
    return tt_fact_group_reduce(fact, values, (int32_t)fact->n_parts);
}

/* The value with that seed, or with the median of each run. */
static double value_with(const struct tt_fact_runs *self, size_t fact, int32_t seed,
                         struct tt_text *out_note) {
    const Tutti__Fact *f = self->facts->message->fact[fact];
    const struct tt_fact_group *mine = &self->ours[fact], *others = &self->relative_to[fact];
    double values[TT_FACT_GROUP_MAX];
    tt_assert(mine->overs <= TT_FACT_GROUP_MAX);
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
        values[over] = value;
    }
    return tt_fact_group_reduce(f, values, mine->overs);
}

double tt_fact_runs_value(const struct tt_fact_runs *self, size_t fact, struct tt_text *out_note) {
    const Tutti__Fact *f = self->facts->message->fact[fact];
    if (f->n_parts > 0)
        return value_of_parts(self, f, out_note);
    if (!self->ours[fact].pieces)
        return NAN;
    int32_t seeds = self->options.quick ? 0 : f->seeds;
    if (seeds <= 1)
        return value_with(self, fact, TT_FACT_MEDIAN, out_note);
    double values[TT_FACT_SEEDS_MAX];
    for (int32_t s = 0; s < seeds; s++)
        values[s] = value_with(self, fact, s, NULL);
    return tt_fact_group_seeds(values, seeds, out_note);
}

/* Adds the conditions of the runs of one side. */
static void add_conditions(const struct tt_fact_runs *self, const struct tt_fact_group *group,
                           struct tt_fact_conditions_sum *sum) {
    for (int32_t i = 0; group->pieces && i < group->overs * group->alternatives; i++) {
        const struct tt_fact_piece *piece = &self->pieces[group->pieces[i]];
        for (int32_t s = 0; s < piece->seeds; s++)
            tt_fact_conditions_add(sum, piece->results[s]);
    }
}

void tt_fact_runs_conditions(const struct tt_fact_runs *self, size_t fact, struct tt_text *out) {
    struct tt_fact_conditions_sum sum = {.count = 0};
    add_conditions(self, &self->ours[fact], &sum);
    add_conditions(self, &self->relative_to[fact], &sum);
    tt_fact_conditions_describe(&sum, out);
}
