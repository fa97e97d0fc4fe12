#include "lab/sweep/sweep.h"

#include "base/fnv.h"
#include "base/text.h"
#include "lab/closed_form/bound.h"
#include "lab/report/report.h"
#include "lab/run/scenario_run.h"
#include "lab/scenario/allocate.h"
#include "lab/sweep/jobs.h"
#include "lab/sweep/sweep_bounds.h"
#include "lab/sweep/sweep_points.h"
#include "lab/sweep/sweep_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SEEDS = 1000 };
#define MAX_FILE_BYTES ((size_t)1 << 32)

json_t *tt_sweep_point_values(const struct tt_sweep *self, int32_t point) {
    return tt_sweep_points_values(self->experiment->message, point);
}

/* The key of a job in the state file: sorted, so that the order of the sweeps does not matter. */
static char *key_of(const struct tt_sweep *self, int32_t index) {
    json_t *key = json_pack("{s:o,s:i}", "point", tt_sweep_point_values(self, index / self->seeds),
                            "seed", index % self->seeds);
    char *text = key ? json_dumps(key, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    json_decref(key);
    return text;
}

/* ---- what determines the results ---- */

/* A file that cannot be read is skipped: building the scenario reports it. */
static void hash_file(uint64_t *to, const char *path) {
    struct tt_text text;
    struct tt_error why;
    if (!path || tt_text_read_file(path, MAX_FILE_BYTES, &text, &why) != TT_OK)
        return;
    *to = tt_fnv_add(*to, tt_text_string(&text), text.length);
    tt_text_fini(&text);
}

static void hash_named(uint64_t *to, const struct tt_experiment *experiment, const char *name) {
    char *path = name[0] ? tt_experiment_path(experiment, name) : NULL;
    hash_file(to, path);
    free(path);
}

uint64_t tt_sweep_identity(const struct tt_experiment *experiment) {
    Tutti__Experiment bare = *experiment->message; /* shallow: only its own fields are changed */
    bare.n_sweep = 0;
    Tutti__ExperimentGoodput goodput = TUTTI__EXPERIMENT_GOODPUT__INIT;
    if (bare.goodput)
        goodput = *bare.goodput;
    goodput.seeds = 0;
    bare.goodput = &goodput;
    uint64_t out = TT_FNV_START;
    size_t size = tutti__experiment__get_packed_size(&bare);
    uint8_t *packed = tt_allocate(size, 1);
    out = tt_fnv_add(out, packed, tutti__experiment__pack(&bare, packed));
    free(packed);
    for (size_t i = 0; i < bare.n_model_table; i++)
        hash_named(&out, experiment, bare.model_table[i]->file);
    for (size_t i = 0; i < bare.n_model; i++)
        hash_named(&out, experiment, bare.model[i]->profile_file);
    for (size_t i = 0; i < bare.n_model && bare.repository[0]; i++) {
        char name[4096];
        snprintf(name, sizeof(name), "%s/%s/profile.pbtxt", bare.repository, bare.model[i]->name);
        hash_named(&out, experiment, name);
    }
    if (experiment->arrivals)
        hash_file(&out, experiment->arrivals);
    else if (bare.load)
        hash_named(&out, experiment, bare.load->file);
    return out;
}

/* ---- one job, in a child process ---- */

static json_t *search(struct tt_sweep *self, int32_t job, const struct tt_scenario *scenario,
                      enum tt_err *out_err, struct tt_error *why) {
    struct tt_goodput goodput;
    struct tt_goodput_options options = self->search;
    options.shared_gaps = &self->shared_gaps;
    options.job = job;
    *out_err = tt_goodput_search(scenario, &options, self->options.stop, &goodput, why);
    if (*out_err)
        return NULL;
    json_t *out = tt_report_goodput_json(&goodput);
    struct tt_bound bound = tt_bound_of(scenario);
    if (out && bound.staggered_per_s > 0) {
        json_object_set_new(out, "staggered_per_s", json_real(bound.staggered_per_s));
        json_object_set_new(out, "uncoordinated_per_s", json_real(bound.uncoordinated_per_s));
    }
    return out;
}

static json_t *run_once(const struct tt_sweep *self, const struct tt_scenario *scenario,
                        enum tt_err *out_err, struct tt_error *why) {
    struct tt_scenario_result result;
    *out_err =
        tt_scenario_run(scenario, self->options.check, NULL, self->options.stop, &result, why);
    if (*out_err)
        return NULL;
    json_t *out = tt_report_json(scenario, self->experiment->message->title, &result);
    tt_measure_fini(&result.measure);
    return out;
}

/* A copy of the experiment with a message of its own, which points change. It does not know the
 * lines of its values. */
static struct tt_experiment copy_of(const struct tt_experiment *experiment) {
    size_t size = tutti__experiment__get_packed_size(experiment->message);
    uint8_t *packed = tt_allocate(size + 1, 1);
    tutti__experiment__pack(experiment->message, packed);
    struct tt_experiment copy = *experiment;
    copy.message = tutti__experiment__unpack(NULL, size, packed);
    tt_assert(copy.message != NULL);
    free(packed);
    return copy;
}

static json_t *compute(struct tt_sweep *self, int32_t job, enum tt_err *out_err,
                       struct tt_error *why) {
    int32_t index = self->todo[job];
    struct tt_scenario scenario;
    struct tt_experiment own = copy_of(self->experiment);
    *out_err = tt_sweep_points_build(&own, index / self->seeds, &scenario, why);
    if (*out_err) {
        tutti__experiment__free_unpacked(own.message, NULL);
        return NULL;
    }
    scenario.seed += (uint64_t)(index % self->seeds);
    enum tt_possible_of of = self->options.goodput ? TT_POSSIBLE_OF_RATE : TT_POSSIBLE_OF_RUN;
    if (self->options.bound && !self->options.where_covered)
        *out_err = tt_possible_covers(&scenario, of, why);
    json_t *out = NULL;
    if (!*out_err)
        out = self->options.goodput ? search(self, job, &scenario, out_err, why)
                                    : run_once(self, &scenario, out_err, why);
    if (out && self->options.bound) {
        *out_err = tt_sweep_bounds_note(out, &scenario, of, self->options.where_covered, why);
        if (*out_err) {
            json_decref(out);
            out = NULL;
        }
    }
    tt_scenario_fini(&scenario);
    tutti__experiment__free_unpacked(own.message, NULL);
    return out;
}

static void work(void *context, int32_t job, struct tt_text *result) {
    struct tt_sweep *self = context;
    struct tt_error why;
    enum tt_err err;
    json_t *value = compute(self, job, &err, &why);
    tt_jobs_answer(value, err, &why, result);
}

static void starts(void *context, int32_t job) {
    struct tt_sweep *self = context;
    tt_shared_gaps_lend(&self->shared_gaps, job);
}

static void done(void *context, int32_t job, const char *result) {
    struct tt_sweep *self = context;
    int32_t index = self->todo[job];
    tt_shared_gaps_settle(&self->shared_gaps, job);
    json_t *value = json_loads(result, 0, NULL);
    if (json_integer_value(json_object_get(value, "code")) == TT_ERR_CANCELLED) {
        json_decref(value); /* stopped before it had a result */
        value = NULL;
    }
    self->results[index] = value;
    self->finished++;
    bool whole = value && !json_object_get(value, "error") &&
                 !json_is_true(json_object_get(value, "interrupted"));
    if (whole && self->state && !self->state_err) {
        char *key = key_of(self, index);
        self->state_err = key ? tt_sweep_state_add(self->state, key, value, &self->state_why)
                              : tt_fail(TT_ERR_NO_MEMORY, &self->state_why, "out of memory");
        free(key);
    }
    if (self->options.progress)
        self->options.progress(self->options.context, self->finished, self->points * self->seeds);
}

/* ---- the whole ---- */

enum tt_err tt_sweep_init(struct tt_sweep *self, struct tt_experiment *experiment,
                          const struct tt_sweep_options *options, struct tt_error *why) {
    const Tutti__Experiment *message = experiment->message;
    const Tutti__ExperimentGoodput *goodput = message->goodput;
    *self = (struct tt_sweep){.experiment = experiment, .options = *options};
    self->search = tt_experiment_goodput(experiment);
    self->seeds = options->goodput && goodput && goodput->seeds > 0 ? goodput->seeds : 1;
    self->points = tt_sweep_points_count(message);
    if (self->points < 1 || self->seeds > MAX_SEEDS)
        return tt_experiment_wrong(experiment, message, "sweep", why,
                                   "the sweeps make no point or more than 10^6, or there are more "
                                   "than 1000 seeds");
    size_t count = (size_t)self->points * (size_t)self->seeds;
    self->results = tt_allocate(count, sizeof(*self->results));
    self->todo = tt_allocate(count, sizeof(*self->todo));
    return TT_OK;
}

void tt_sweep_fini(struct tt_sweep *self) {
    for (int64_t i = 0; self->results && i < (int64_t)self->points * self->seeds; i++)
        json_decref(self->results[i]);
    free(self->results);
    free(self->todo);
    *self = (struct tt_sweep){0};
}

/* The same error with the line in the file, if it is the experiment's. */
static void locate(const struct tt_sweep *self, int32_t index, struct tt_error *why) {
    struct tt_scenario scenario;
    struct tt_error located;
    if (tt_sweep_points_build(self->experiment, index / self->seeds, &scenario, &located) == TT_OK)
        tt_scenario_fini(&scenario);
    else
        *why = located;
}

static enum tt_err first_error(const struct tt_sweep *self, struct tt_error *why) {
    bool stopped = self->options.stop && *self->options.stop;
    for (int32_t i = 0; i < self->points * self->seeds; i++) {
        const json_t *error = json_object_get(self->results[i], "error");
        if (error) {
            enum tt_err err =
                (enum tt_err)json_integer_value(json_object_get(self->results[i], "code"));
            (void)tt_fail(err, why, "%s", json_string_value(error));
            locate(self, i, why);
            return err;
        }
        if (!self->results[i] && !stopped)
            return tt_fail(TT_ERR_IO, why, "a worker process died");
    }
    return TT_OK;
}

/* Whether a job runs in real time: such jobs would disturb each other's measurements. */
static bool takes_time(const Tutti__Experiment *message) {
    bool takes = message->world != TUTTI__EXPERIMENT_WORLD__SIMULATED;
    for (size_t i = 0; i < message->n_sweep; i++)
        takes |= strstr(message->sweep[i]->parameter, "world") != NULL;
    for (size_t c = 0; c < message->n_contender; c++)
        for (size_t i = 0; i < message->contender[c]->n_set; i++)
            takes |= strncmp(message->contender[c]->set[i], "world", 5) == 0;
    return takes;
}

static enum tt_err run_rest(struct tt_sweep *self, struct tt_error *why) {
    int32_t rest = 0;
    for (int32_t i = 0; i < self->points * self->seeds; i++) {
        char *key = self->state ? key_of(self, i) : NULL;
        if (self->state && !key)
            return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
        json_t *known = self->state ? tt_sweep_state_find(self->state, key) : NULL;
        free(key);
        self->results[i] = json_incref(known);
        if (known)
            self->finished++;
        else
            self->todo[rest++] = i;
    }
    bool in_real_time = takes_time(self->experiment->message);
    struct tt_jobs jobs = {.count = rest,
                           .workers = in_real_time ? 1 : self->options.workers,
                           .context = self,
                           .keeps_context = !in_real_time,
                           .starts = starts,
                           .work = work,
                           .done = done,
                           .stop = self->options.stop};
    tt_shared_gaps_init(&self->shared_gaps);
    enum tt_err err = tt_jobs_run(&jobs, why);
    tt_shared_gaps_fini(&self->shared_gaps);
    if (!err && self->state_err) {
        *why = self->state_why;
        err = self->state_err;
    }
    return err ? err : first_error(self, why);
}

static enum tt_err run_bounds(struct tt_sweep *self, struct tt_error *why) {
    const struct tt_sweep_bounds bounds = {.experiment = self->experiment,
                                           .results = self->results,
                                           .points = self->points,
                                           .seeds = self->seeds,
                                           .search = self->options.goodput ? &self->search : NULL,
                                           .where_covered = self->options.where_covered,
                                           .workers = self->options.workers,
                                           .state = self->state,
                                           .stop = self->options.stop,
                                           .progress = self->options.progress,
                                           .context = self->options.context};
    return tt_sweep_bounds_run(&bounds, why);
}

static enum tt_err run_all(struct tt_sweep *self, struct tt_error *why) {
    enum tt_err err = run_rest(self, why);
    return err || !self->options.bound ? err : run_bounds(self, why);
}

enum tt_err tt_sweep_run(struct tt_sweep *self, struct tt_error *why) {
    static const char *const kinds[2][2] = {{"run", "run and bound"},
                                            {"goodput", "goodput and bound"}};
    struct tt_sweep_state state;
    if (!self->options.state_path)
        return run_all(self, why);
    enum tt_err err =
        tt_sweep_state_open(&state, self->options.state_path, tt_sweep_identity(self->experiment),
                            kinds[self->options.goodput][self->options.bound], why);
    if (err)
        return err;
    self->state = &state;
    err = run_all(self, why);
    self->state = NULL;
    tt_sweep_state_close(&state);
    return err;
}

static int compare_goodput(const void *a, const void *b) {
    double x = json_number_value(json_object_get(*(json_t *const *)a, "goodput_per_s"));
    double y = json_number_value(json_object_get(*(json_t *const *)b, "goodput_per_s"));
    return (x > y) - (x < y);
}

json_t *tt_sweep_point(const struct tt_sweep *self, int32_t point) {
    json_t *known[MAX_SEEDS];
    int32_t count = 0;
    for (int32_t s = 0; s < self->seeds; s++)
        if (self->results[point * self->seeds + s])
            known[count++] = self->results[point * self->seeds + s];
    if (count == 0)
        return NULL;
    if (self->options.goodput)
        qsort(known, (size_t)count, sizeof(*known), compare_goodput);
    json_t *out = json_copy(known[(count - 1) / 2]);
    if (!out)
        return NULL;
    if (self->options.goodput && count > 1) {
        json_object_set(out, "goodput_per_s_min", json_object_get(known[0], "goodput_per_s"));
        json_object_set(out, "goodput_per_s_max",
                        json_object_get(known[count - 1], "goodput_per_s"));
    }
    if (self->options.goodput)
        json_object_set_new(out, "seeds", json_integer(count));
    json_object_set_new(out, "point", tt_sweep_point_values(self, point));
    json_object_del(out, "workload");
    return out;
}
