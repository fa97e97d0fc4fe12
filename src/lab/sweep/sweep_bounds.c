#include "lab/sweep/sweep_bounds.h"

#include "lab/report/possible_report.h"
#include "lab/scenario/allocate.h"
#include "lab/sweep/jobs.h"
#include "lab/sweep/sweep_points.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct bounds {
    const struct tt_sweep_bounds *given;
    json_t *found;  /* from workload to what its bound says */
    int32_t *first; /* [count]: a result of each workload that has no bound yet */
    int32_t count, finished;
    enum tt_err state_err;
    struct tt_error state_why;
};

enum tt_err tt_sweep_bounds_note(json_t *result, const struct tt_scenario *scenario,
                                 enum tt_possible_of of, bool where_covered, struct tt_error *why) {
    uint64_t identity;
    enum tt_err err = tt_possible_identity(scenario, of, &identity, why);
    if (err == TT_ERR_INVALID && where_covered) {
        json_object_set_new(result, "not_covered", json_string(why->text));
        return TT_OK;
    }
    if (err)
        return err;
    char text[32];
    snprintf(text, sizeof(text), "%016" PRIx64, identity);
    json_object_set_new(result, "workload", json_string(text));
    return TT_OK;
}

static const char *workload_of(const struct bounds *self, int32_t index) {
    return json_string_value(json_object_get(self->given->results[index], "workload"));
}

static char *key_of(const char *workload) { return tt_format_text("{\"bound\":\"%s\"}", workload); }

/* ---- one bound, in a process of its own ---- */

static json_t *bound_of_rate(const struct bounds *self, const struct tt_scenario *scenario,
                             const struct tt_possible_options *options, enum tt_err *out_err,
                             struct tt_error *why) {
    struct tt_possible_rate rate;
    *out_err = tt_possible_rate(scenario, self->given->search, options, &rate, why);
    if (*out_err)
        return NULL;
    return json_pack("{s:I,s:I,s:I,s:b}", "impossible", (json_int_t)rate.impossible, "open",
                     (json_int_t)rate.open, "planned", (json_int_t)rate.planned, "interrupted",
                     rate.interrupted);
}

static json_t *bound_of_run(const struct tt_scenario *scenario,
                            const struct tt_possible_options *options, enum tt_err *out_err,
                            struct tt_error *why) {
    struct tt_possible_run run;
    *out_err = tt_possible_run(scenario, options, &run, why);
    if (*out_err)
        return NULL;
    return json_pack("{s:I,s:I,s:I,s:I,s:b}", "requests", (json_int_t)run.requests, "most",
                     (json_int_t)run.most, "planned", (json_int_t)run.planned, "least_mean_ns",
                     (json_int_t)run.least_mean_ns, "interrupted", run.interrupted);
}

static json_t *compute(const struct bounds *self, int32_t index, enum tt_err *out_err,
                       struct tt_error *why) {
    const struct tt_sweep_bounds *given = self->given;
    struct tt_scenario scenario;
    *out_err = tt_sweep_points_build(given->experiment, index / given->seeds, &scenario, why);
    if (*out_err)
        return NULL;
    scenario.seed += (uint64_t)(index % given->seeds);
    /* A single bound runs in the caller's process, and can say how far it is. */
    const struct tt_possible_options options = {.stop = given->stop,
                                                .progress =
                                                    self->count == 1 ? given->progress : NULL,
                                                .progress_context = given->context};
    json_t *out = given->search ? bound_of_rate(self, &scenario, &options, out_err, why)
                                : bound_of_run(&scenario, &options, out_err, why);
    if (*out_err == TT_ERR_INVALID && given->where_covered) {
        *out_err = TT_OK;
        out = json_pack("{s:s}", "not_covered", why->text);
    }
    tt_scenario_fini(&scenario);
    return out;
}

static void work(void *context, int32_t job, struct tt_text *result) {
    const struct bounds *self = context;
    struct tt_error why;
    enum tt_err err;
    json_t *value = compute(self, self->first[job], &err, &why);
    tt_jobs_answer(value, err, &why, result);
}

static void done(void *context, int32_t job, const char *result) {
    struct bounds *self = context;
    const struct tt_sweep_bounds *given = self->given;
    const char *workload = workload_of(self, self->first[job]);
    json_t *value = json_loads(result, 0, NULL);
    bool whole = value && !json_object_get(value, "error") &&
                 !json_is_true(json_object_get(value, "interrupted"));
    if (value)
        json_object_set_new(self->found, workload, value);
    if (whole && given->state && !self->state_err) {
        char *key = key_of(workload);
        self->state_err = tt_sweep_state_add(given->state, key, value, &self->state_why);
        free(key);
    }
    if (given->progress && self->count > 1)
        given->progress(given->context, ++self->finished, self->count);
}

/* ---- all of them ---- */

/* Lists the workloads whose bounds the state file does not have. */
static void list(struct bounds *self) {
    const struct tt_sweep_bounds *given = self->given;
    for (int32_t i = 0; i < given->points * given->seeds; i++) {
        const char *workload = workload_of(self, i);
        if (!workload || json_object_get(self->found, workload))
            continue;
        char *key = key_of(workload);
        json_t *known = given->state ? tt_sweep_state_find(given->state, key) : NULL;
        free(key);
        if (!known)
            self->first[self->count++] = i;
        json_object_set_new(self->found, workload, known ? json_incref(known) : json_null());
    }
}

static int64_t number(const json_t *object, const char *key) {
    return json_integer_value(json_object_get(object, key));
}

static void add_to(json_t *result, const json_t *bound, bool of_rate) {
    bool interrupted = json_is_true(json_object_get(bound, "interrupted"));
    if (json_object_get(bound, "not_covered")) {
        json_object_set(result, "not_covered", json_object_get(bound, "not_covered"));
    } else if (of_rate) {
        const struct tt_possible_rate rate = {.impossible = number(bound, "impossible"),
                                              .open = number(bound, "open"),
                                              .planned = number(bound, "planned"),
                                              .interrupted = interrupted};
        tt_possible_report_rate(result, &rate);
    } else {
        const struct tt_possible_run run = {.requests = number(bound, "requests"),
                                            .most = number(bound, "most"),
                                            .planned = number(bound, "planned"),
                                            .least_mean_ns = number(bound, "least_mean_ns"),
                                            .interrupted = interrupted};
        tt_possible_report_run(result, &run);
    }
}

static enum tt_err add_all(const struct bounds *self, struct tt_error *why) {
    const struct tt_sweep_bounds *given = self->given;
    bool stopped = given->stop && *given->stop;
    for (int32_t i = 0; i < given->points * given->seeds; i++) {
        const char *workload = workload_of(self, i);
        const json_t *bound = workload ? json_object_get(self->found, workload) : NULL;
        const json_t *error = json_object_get(bound, "error");
        if (error && number(bound, "code") != TT_ERR_CANCELLED)
            return tt_fail((enum tt_err)number(bound, "code"), why, "%s", json_string_value(error));
        if (json_is_object(bound) && !error)
            add_to(given->results[i], bound, given->search != NULL);
        else if (bound && !stopped)
            return tt_fail(TT_ERR_IO, why, "a worker process died");
        else if (bound)
            json_object_set_new(given->results[i], "interrupted", json_true());
    }
    return TT_OK;
}

enum tt_err tt_sweep_bounds_run(const struct tt_sweep_bounds *self, struct tt_error *why) {
    struct bounds bounds = {.given = self, .found = json_object()};
    bounds.first = tt_allocate((size_t)self->points * (size_t)self->seeds, sizeof(*bounds.first));
    list(&bounds);
    struct tt_jobs jobs = {.count = bounds.count,
                           .workers = self->workers,
                           .context = &bounds,
                           .work = work,
                           .done = done,
                           .stop = self->stop};
    enum tt_err err = bounds.count > 0 ? tt_jobs_run(&jobs, why) : TT_OK;
    if (!err && bounds.state_err) {
        *why = bounds.state_why;
        err = bounds.state_err;
    }
    if (!err)
        err = add_all(&bounds, why);
    json_decref(bounds.found);
    free(bounds.first);
    return err;
}
