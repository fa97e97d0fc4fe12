#include "lab/facts/fact_sweep.h"

#include "lab/scenario/allocate.h"
#include "lab/sweep/sweep.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tt_fact_sweep {
    struct tt_experiment experiment;
    /* From a workload (its values as JSON text, the policy left out) to {"point": its values,
     * "goodput": {POLICY: r/s, or null while unknown}}. */
    json_t *workloads;
    void (*progress)(int32_t finished, int32_t count);
};

/* ---- workloads ---- */

/* Removes the policy from `point` and returns its workload, which is created if it is new. */
static json_t *workload_of(struct tt_fact_sweep *self, json_t *point, char policy[64]) {
    const char *name = json_string_value(json_object_get(point, "policy"));
    snprintf(policy, 64, "%s", name ? name : "");
    json_object_del(point, "policy");
    char *key = json_dumps(point, JSON_COMPACT | JSON_SORT_KEYS);
    if (!key)
        return NULL;
    json_t *workload = json_object_get(self->workloads, key);
    if (!workload) {
        workload = json_pack("{s:O,s:{}}", "point", point, "goodput");
        json_object_set_new(self->workloads, key, workload);
    }
    free(key);
    return workload;
}

/* Visits every point of the sweep; with `run`, notes its result (a number, or null). */
static enum tt_err take_points(struct tt_fact_sweep *self, const struct tt_sweep *sweep, bool run,
                               struct tt_error *why) {
    for (int32_t p = 0; p < sweep->points; p++) {
        json_t *result = run ? tt_sweep_point(sweep, p) : NULL;
        json_t *point = tt_sweep_point_values(sweep, p);
        char policy[64];
        json_t *workload = point ? workload_of(self, point, policy) : NULL;
        json_t *found = json_object_get(result, "goodput_per_s");
        bool whole = found && !json_is_true(json_object_get(result, "interrupted"));
        int failed = workload ? json_object_set_new(json_object_get(workload, "goodput"), policy,
                                                    whole ? json_incref(found) : json_null())
                              : -1;
        json_decref(point);
        json_decref(result);
        if (failed)
            return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    }
    return TT_OK;
}

enum tt_err tt_fact_sweep_new(struct tt_experiment *take_experiment,
                              struct tt_fact_sweep **out_sweep, struct tt_error *why) {
    struct tt_fact_sweep *self = tt_allocate(1, sizeof(*self));
    self->experiment = *take_experiment;
    self->workloads = json_object();
    struct tt_sweep sweep;
    enum tt_err err =
        tt_sweep_init(&sweep, &self->experiment, &(struct tt_sweep_options){.goodput = true}, why);
    if (!err) {
        err = take_points(self, &sweep, false, why);
        tt_sweep_fini(&sweep);
    }
    if (err)
        tt_fact_sweep_free(self);
    else
        *out_sweep = self;
    return err;
}

void tt_fact_sweep_free(struct tt_fact_sweep *take_sweep) {
    if (!take_sweep)
        return;
    json_decref(take_sweep->workloads);
    tt_experiment_close(&take_sweep->experiment);
    free(take_sweep);
}

/* Whether the point has every "NAME=VALUE"; values are compared as text. */
static bool is_meant(const json_t *workload, const Tutti__FactSweep *claim) {
    const json_t *point = json_object_get(workload, "point");
    for (size_t i = 0; i < claim->n_where; i++) {
        const char *where = claim->where[i], *equals = strchr(where, '=');
        const json_t *value =
            equals ? json_object_getn(point, where, (size_t)(equals - where)) : NULL;
        if (!value || strcmp(json_string_value(value), equals + 1) != 0)
            return false;
    }
    const json_t *goodput = json_object_get(workload, "goodput");
    return json_object_get(goodput, claim->policy) && json_object_get(goodput, claim->over);
}

int32_t tt_fact_sweep_count(const struct tt_fact_sweep *self, const Tutti__FactSweep *claim) {
    int32_t count = 0;
    const char *key;
    json_t *workload;
    json_object_foreach(self->workloads, key, workload) count += is_meant(workload, claim);
    return count;
}

/* ---- running ---- */

static char *state_path(const struct tt_fact_sweep *self, const char *folder) {
    const char *slash = strrchr(self->experiment.path, '/');
    const char *name = slash ? slash + 1 : self->experiment.path;
    const char *dot = strrchr(name, '.');
    int length = dot ? (int)(dot - name) : (int)strlen(name);
    return tt_format_text("%s/%.*s.state", folder, length, name);
}

static void on_progress(void *context, int32_t finished, int32_t all) {
    struct tt_fact_sweep *self = context;
    if (self->progress)
        self->progress(finished, all);
}

enum tt_err tt_fact_sweep_run(struct tt_fact_sweep *self,
                              const struct tt_fact_sweep_options *options, struct tt_error *why) {
    char *path = options->folder ? state_path(self, options->folder) : NULL;
    self->progress = options->progress;
    struct tt_sweep_options how = {.goodput = true,
                                   .workers = options->workers,
                                   .state_path = path,
                                   .stop = options->stop,
                                   .progress = on_progress,
                                   .context = self};
    struct tt_sweep sweep;
    enum tt_err err = tt_sweep_init(&sweep, &self->experiment, &how, why);
    if (!err) {
        err = tt_sweep_run(&sweep, why);
        if (!err)
            err = take_points(self, &sweep, true, why);
        tt_sweep_fini(&sweep);
    }
    free(path);
    return err;
}

/* ---- values ---- */

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The gains of all workloads of the claim, ascending, malloc'ed. NULL: one is unknown. */
static double *gains_of(const struct tt_fact_sweep *self, const Tutti__FactSweep *claim,
                        size_t *out_count) {
    double *gains = tt_allocate(json_object_size(self->workloads) + 1, sizeof(*gains));
    size_t count = 0;
    const char *key;
    json_t *workload;
    json_object_foreach(self->workloads, key, workload) {
        if (!is_meant(workload, claim))
            continue;
        const json_t *goodput = json_object_get(workload, "goodput");
        double ours = json_number_value(json_object_get(goodput, claim->policy));
        double over = json_number_value(json_object_get(goodput, claim->over));
        if (ours <= 0 || over <= 0) {
            free(gains);
            return NULL;
        }
        gains[count++] = ours / over;
    }
    qsort(gains, count, sizeof(*gains), compare_doubles);
    *out_count = count;
    return gains;
}

double tt_fact_sweep_value(const struct tt_fact_sweep *self, const Tutti__FactSweep *claim,
                           struct tt_text *out_note) {
    size_t count = 0, below = 0;
    double *gains = gains_of(self, claim, &count);
    double value = NAN;
    if (gains && count > 0) {
        while (below < count && gains[below] < claim->at_least)
            below++;
        switch (claim->statistic) {
        case TUTTI__FACT_STATISTIC__LEAST: value = gains[0]; break;
        case TUTTI__FACT_STATISTIC__MOST: value = gains[count - 1]; break;
        case TUTTI__FACT_STATISTIC__SHARE: value = (double)(count - below) / (double)count; break;
        case TUTTI__FACT_STATISTIC__MEDIAN:
        default: value = gains[(count - 1) / 2]; break;
        }
        if (out_note)
            tt_text_printf(out_note, "%zu workloads: %.3f .. %.3f .. %.3f", count, gains[0],
                           gains[(count - 1) / 2], gains[count - 1]);
    }
    free(gains);
    return value;
}
