#include "profile/worker_search.h"

#include "base/clock.h"
#include "base/instant.h"
#include "engine/synthetic_input.h"
#include "policy/elastic/elastic_plan.h"
#include "policy/policy.h"
#include "profile/blocking_run.h"
#include "profile/repetition.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert((int)TT_WORKER_SIZES == (int)TT_ELASTIC_SIZES,
               "files and policies use the same sizes");

enum { MAX_RUNS = 200, MAX_WORKERS = TT_ELASTIC_MAX_TOTAL };

/* Workers that start together. */
struct crew {
    struct tt_blocking_run blocking_run;
    struct tt_engine_model *model;
    const struct tt_worker_search_options *options;
    struct tt_synthetic_input full[TT_WORKER_SIZES]; /* a batch for each size */
    struct tt_engine_task tasks[MAX_WORKERS];
    struct tt_engine_member members[MAX_WORKERS];
    int64_t means[MAX_RUNS], lasts[MAX_RUNS];
};

/* Assigns a task per worker, the largest to the first executors. Returns the number of workers. */
static int32_t assign(struct crew *self, const int32_t counts[TT_WORKER_SIZES],
                      struct tt_error *why) {
    int32_t count = 0;
    int32_t last = self->model->engine->ops->step_count(self->model) - 1;
    for (int32_t k = TT_WORKER_SIZES - 1; k >= 0; k--)
        for (int32_t i = 0; i < counts[k]; i++, count++) {
            tt_assert(count < MAX_WORKERS);
            tt_assert(self->full[k].rows == 1 << k);
            self->members[count] = (struct tt_engine_member){
                .rows = 1 << k, .inputs = self->full[k].views, .why = count == 0 ? why : NULL};
            self->tasks[count] = (struct tt_engine_task){.model = self->model,
                                                         .head.executor = count,
                                                         .head.last_step = last,
                                                         .member_count = 1,
                                                         .members = &self->members[count]};
        }
    return count;
}

/* Runs all workers once; stores the times at means[run] and lasts[run]. */
static enum tt_err run_once(struct crew *self, const int32_t counts[TT_WORKER_SIZES], int32_t run,
                            struct tt_error *why) {
    const struct tt_engine_ops *ops = self->model->engine->ops;
    int32_t count = assign(self, counts, why);
    tt_assert(count >= 1);
    tt_assert(count <= self->model->engine->executor_count);
    tt_assert(run < MAX_RUNS);
    int64_t began_at = tt_clock_now();
    tt_blocking_run_all(&self->blocking_run, self->tasks, count);
    enum tt_err err = TT_OK;
    int64_t sum = 0, last = 0;
    for (int32_t i = 0; i < count; i++) {
        int64_t took = self->tasks[i].head.ended_at - began_at;
        sum += took;
        last = took > last ? took : last;
        if (self->members[i].err && !err)
            err = i == 0 ? self->members[i].err
                         : tt_fail(self->members[i].err, why, "a worker of %d rows failed",
                                   self->members[i].rows);
        if (self->members[i].result)
            ops->result_release(self->members[i].result);
    }
    self->means[run] = sum / count;
    self->lasts[run] = last;
    return err;
}

static enum tt_err measure(struct crew *self, struct tt_worker_mix *mix, struct tt_error *why) {
    const struct tt_worker_search_options *options = self->options;
    const struct tt_repetition repetition = {options->runs, MAX_RUNS, options->least_ns,
                                             options->max_ns};
    enum tt_err err = run_once(self, mix->counts, 0, why); /* warm-up */
    int32_t count = 0;
    int64_t total = 0;
    while (!err && tt_repetition_again(&repetition, count, total)) {
        err = run_once(self, mix->counts, count, why);
        total += self->lasts[count++];
    }
    if (err)
        return err;
    struct tt_run_times means = tt_run_times_of(self->means, count);
    mix->runs = count;
    mix->mean_ns = means.median_ns;
    mix->low_ns = means.low_ns;
    mix->high_ns = means.high_ns;
    mix->last_ns = tt_run_times_of(self->lasts, count).median_ns;
    return TT_OK;
}

static enum tt_err try_all(struct crew *self, int32_t (*choices)[TT_ELASTIC_SIZES], int32_t count,
                           struct tt_error *why) {
    const struct tt_worker_search_options *options = self->options;
    for (int32_t i = 0; i < count; i++) {
        struct tt_worker_mix mix = {0};
        memcpy(mix.counts, choices[i], sizeof(mix.counts));
        if (options->progress && !options->progress(options->context, i, count, mix.counts))
            return tt_fail(TT_ERR_CANCELLED, why, "interrupted");
        if (options->recall && options->recall(options->context, &mix))
            continue;
        char workers[1024];
        enum tt_err err = measure(self, &mix, why);
        if (err)
            return tt_fail_in(err, why, "workers %s",
                              tt_worker_mix_print(mix.counts, workers, sizeof(workers)));
        if (options->keep)
            options->keep(options->context, &mix);
    }
    return TT_OK;
}

int32_t tt_worker_search_executors(const int32_t *totals, int32_t total_count) {
    int32_t most = 1;
    for (int32_t i = 0; i < total_count; i++)
        most = totals[i] > most ? totals[i] : most;
    return most;
}

static int32_t largest_power(int32_t value) {
    tt_assert(value >= 1);
    return 1 << (31 - __builtin_clz((unsigned)value));
}

static enum tt_err search(struct crew *self, struct tt_error *why) {
    const struct tt_worker_search_options *options = self->options;
    const struct tt_signature *signature = self->model->engine->ops->signature(self->model);
    int32_t largest =
        options->largest < signature->max_batch ? options->largest : signature->max_batch;
    largest = largest_power(largest);
    enum tt_err err = TT_OK;
    for (int32_t k = 0; !err && k < TT_WORKER_SIZES && 1 << k <= largest; k++)
        err = tt_synthetic_input_init(&self->full[k], signature, 0, 1 << k, options->length,
                                      TT_SYNTHETIC_INPUT_ZEROS, why);
    size_t most = (size_t)TT_ELASTIC_MAX_CHOICES * (size_t)options->total_count;
    int32_t(*choices)[TT_ELASTIC_SIZES] = calloc(most, sizeof(*choices));
    if (!err && !choices)
        err = tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    int32_t count = 0;
    for (int32_t i = 0; !err && i < options->total_count; i++)
        count += tt_elastic_choices(options->totals[i], largest, choices + count,
                                    TT_ELASTIC_MAX_CHOICES);
    tt_assert((size_t)count <= most);
    if (!err)
        err = try_all(self, choices, count, why);
    free(choices);
    for (int32_t k = 0; k < TT_WORKER_SIZES; k++)
        tt_synthetic_input_fini(&self->full[k]);
    return err;
}

enum tt_err tt_worker_search(struct tt_engine_model *model,
                             const struct tt_worker_search_options *options, struct tt_error *why) {
    struct tt_engine *engine = model->engine;
    tt_assert(options->total_count >= 1);
    tt_assert(options->total_count <= TT_WORKER_SEARCH_MAX_TOTALS);
    tt_assert(engine->executor_count >=
              tt_worker_search_executors(options->totals, options->total_count));
    struct crew *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    self->model = model;
    self->options = options;
    tt_blocking_run_begin(&self->blocking_run, engine);
    enum tt_err err = search(self, why);
    tt_blocking_run_end(&self->blocking_run);
    free(self);
    return err;
}

/* ---- results ---- */

static int32_t worker_count(const struct tt_worker_mix *mix) {
    int32_t count = 0;
    for (int32_t k = 0; k < TT_WORKER_SIZES; k++)
        count += mix->counts[k];
    return count;
}

static bool is_available(const struct tt_worker_mix *mix, const int32_t *available) {
    for (int32_t k = 0; available && k < TT_WORKER_SIZES; k++)
        if (mix->counts[k] > available[k])
            return false;
    return true;
}

int32_t tt_worker_search_within(struct tt_worker_mix *mixes, int32_t count, int64_t promise_ns) {
    bool some_keep[TT_ELASTIC_MAX_TOTAL + 1] = {false};
    int32_t kept = 0;
    for (int32_t i = 0; i < count; i++) {
        int32_t total = tt_worker_mix_total(&mixes[i]);
        if (total <= TT_ELASTIC_MAX_TOTAL)
            some_keep[total] |= tt_worker_mix_keeps(&mixes[i], promise_ns);
    }
    for (int32_t i = 0; i < count; i++) {
        int32_t total = tt_worker_mix_total(&mixes[i]);
        bool is_late = total <= TT_ELASTIC_MAX_TOTAL && some_keep[total] &&
                       !tt_worker_mix_keeps(&mixes[i], promise_ns);
        if (!is_late)
            mixes[kept++] = mixes[i];
    }
    return kept;
}

const struct tt_worker_mix *tt_worker_search_best(const struct tt_worker_mix *mixes, int32_t count,
                                                  int32_t total,
                                                  const int32_t available[TT_WORKER_SIZES]) {
    const struct tt_worker_mix *best = NULL;
    for (int32_t i = 0; i < count; i++) {
        const struct tt_worker_mix *mix = &mixes[i];
        if (tt_worker_mix_total(mix) != total || !is_available(mix, available))
            continue;
        if (!best || mix->mean_ns < best->mean_ns ||
            (mix->mean_ns == best->mean_ns && worker_count(mix) < worker_count(best)))
            best = mix;
    }
    return best;
}

/* The option's value may be wrong: sizes that no worker has are ignored here, and the policy
 * rejects them. */
static void count_given(const char *given, int32_t counts[TT_WORKER_SIZES]) {
    struct tt_option option = {"workers", given};
    int32_t sizes[MAX_WORKERS] = {0};
    int32_t count = tt_options_sizes("workers", &option, 1, sizes, MAX_WORKERS);
    for (int32_t i = 0; i < count && i < MAX_WORKERS; i++)
        for (int32_t k = 0; k < TT_WORKER_SIZES; k++)
            counts[k] += sizes[i] == 1 << k;
}

bool tt_worker_search_options_of(const struct tt_worker_mix *mixes, int32_t count,
                                 const char *given, struct tt_worker_options *out_options) {
    int32_t workers[TT_WORKER_SIZES] = {1, 1};
    if (given) {
        memset(workers, 0, sizeof(workers));
        count_given(given, workers);
    }
    size_t used = 0;
    out_options->configurations[0] = '\0';
    for (int32_t total = 4; total <= TT_ELASTIC_MAX_TOTAL; total *= 2) {
        const struct tt_worker_mix *best =
            tt_worker_search_best(mixes, count, total, given ? workers : NULL);
        if (!best)
            continue;
        char text[256];
        tt_worker_mix_print(best->counts, text, sizeof(text));
        used +=
            (size_t)snprintf(out_options->configurations + used,
                             sizeof(out_options->configurations) - used, used ? ";%s" : "%s", text);
        for (int32_t k = 0; !given && k < TT_WORKER_SIZES; k++)
            workers[k] = best->counts[k] > workers[k] ? best->counts[k] : workers[k];
    }
    if (given)
        snprintf(out_options->workers, sizeof(out_options->workers), "%s", given);
    else
        tt_worker_mix_print(workers, out_options->workers, sizeof(out_options->workers));
    return used > 0;
}
