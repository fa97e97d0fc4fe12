#include "serve/ensemble.h"

#include "base/instant.h"
#include "serve/served_model.h"
#include "serve/served_model_state.h"

#include <stdlib.h>
#include <string.h>

enum { PPM = 1000000 };
/* A step counts as this part of the longest path at least: when its own share is determined, and
 * when those of earlier steps are. */
enum { LEAST_OWN = 2, LEAST_LATER = 4 };

static uint64_t bit(int32_t step) { return UINT64_C(1) << step; }

static void take_step(struct tt_ensemble *self, int32_t s,
                      const struct tt_ensemble_step_spec *spec) {
    struct tt_ensemble_step *step = &self->steps[s];
    step->model = tt_served_model_ref(spec->model);
    step->number = spec->number;
    for (int32_t i = 0; i < spec->model->signature->input_count; i++) {
        int32_t source = spec->inputs[i].step;
        tt_assert(source < s);
        step->inputs[i] = spec->inputs[i];
        if (source < 0)
            continue;
        step->sources |= bit(source);
        self->steps[source].readers |= bit(s);
    }
}

/* How long a request of one row takes alone; 0: not known. */
static int64_t alone_ns_of(const struct tt_served_model *model) {
    if (model->ensemble)
        return model->ensemble->alone_ns;
    /* A model that needs no profile has one that says nothing. */
    bool is_known =
        model->profile && !(model->profile_source && !strcmp(model->profile_source, "none"));
    return is_known ? tt_profile_latency(model->profile, 1, 0) : 0;
}

static int32_t share_of(int64_t part_ns, int64_t path_ns) {
    const int64_t large = INT64_MAX / PPM;
    if (path_ns > large)
        return (int32_t)(part_ns / (path_ns / PPM));
    return (int32_t)(part_ns * PPM / path_ns);
}

static int64_t part_of(int64_t ns, int32_t share_ppm) {
    return ns / PPM * share_ppm + ns % PPM * share_ppm / PPM;
}

/* The longest of the paths that begin with the readers of step `s`; 0: there are none. */
static int64_t rest_of(const struct tt_ensemble *self, int32_t s, const int64_t *paths) {
    int64_t rest = 0;
    for (int32_t r = s + 1; r < self->step_count; r++)
        if (self->steps[s].readers & bit(r))
            rest = tt_instant_max(rest, paths[r]);
    return rest;
}

static void divide(struct tt_ensemble *self) {
    int64_t paths[TT_ENSEMBLE_MAX_STEPS], most = 1;
    self->alone_ns = 1;
    for (int32_t s = self->step_count - 1; s >= 0; s--) {
        struct tt_ensemble_step *step = &self->steps[s];
        step->alone_ns = alone_ns_of(step->model);
        step->path_ns = paths[s] = tt_instant_add(step->alone_ns, rest_of(self, s, paths));
        self->alone_ns = tt_instant_max(self->alone_ns, step->path_ns);
        most = tt_instant_max(most, step->alone_ns);
    }
    for (int32_t s = self->step_count - 1; s >= 0; s--) {
        int64_t alone = self->steps[s].alone_ns, weight = alone > 0 ? alone : most;
        int64_t own = tt_instant_max(weight, self->alone_ns / LEAST_OWN);
        int64_t rest = rest_of(self, s, paths);
        self->steps[s].share_ppm = rest > 0 ? share_of(own, tt_instant_add(own, rest)) : PPM;
        paths[s] = tt_instant_add(tt_instant_max(weight, self->alone_ns / LEAST_LATER), rest);
    }
}

/* Steps on one path run one after the other: of the longest path only the largest counts. */
static void count_quota(struct tt_ensemble *self) {
    int32_t sum[TT_ENSEMBLE_MAX_STEPS], largest[TT_ENSEMBLE_MAX_STEPS], all = 0, spared = 0;
    for (int32_t s = self->step_count - 1; s >= 0; s--) {
        const struct tt_ensemble *part = self->steps[s].model->ensemble;
        int32_t own = part ? part->quota : 1;
        all += own;
        sum[s] = largest[s] = own;
        for (int32_t r = s + 1; r < self->step_count; r++) {
            if ((self->steps[s].readers & bit(r)) && own + sum[r] > sum[s]) {
                sum[s] = own + sum[r];
                largest[s] = own > largest[r] ? own : largest[r];
            }
        }
        if (sum[s] - largest[s] > spared)
            spared = sum[s] - largest[s];
    }
    self->quota = all - spared;
}

enum tt_err tt_ensemble_new(const struct tt_ensemble_spec *spec,
                            struct tt_ensemble **out_ensemble) {
    tt_assert(spec->step_count >= 1);
    tt_assert(spec->step_count <= TT_ENSEMBLE_MAX_STEPS);
    struct tt_ensemble *self = calloc(1, sizeof(*self));
    if (!self)
        return TT_ERR_NO_MEMORY;
    self->steps = calloc((size_t)spec->step_count, sizeof(*self->steps));
    self->outputs = calloc((size_t)spec->output_count + 1, sizeof(*self->outputs));
    if (!self->steps || !self->outputs) {
        tt_ensemble_free(self);
        return TT_ERR_NO_MEMORY;
    }
    self->step_count = spec->step_count;
    for (int32_t s = 0; s < spec->step_count; s++)
        take_step(self, s, &spec->steps[s]);
    self->output_count = spec->output_count;
    for (int32_t i = 0; i < spec->output_count; i++) {
        tt_assert(spec->outputs[i].step >= 0);
        tt_assert(spec->outputs[i].step < spec->step_count);
        self->outputs[i] = spec->outputs[i];
        self->steps[spec->outputs[i].step].is_shown = true;
    }
    divide(self);
    count_quota(self);
    tt_ensemble_check(self);
    *out_ensemble = self;
    return TT_OK;
}

void tt_ensemble_free(struct tt_ensemble *take_self) {
    if (!take_self)
        return;
    for (int32_t s = 0; s < take_self->step_count; s++)
        tt_served_model_unref(take_self->steps[s].model);
    free(take_self->steps);
    free(take_self->outputs);
    free(take_self);
}

int64_t tt_ensemble_patience(const struct tt_ensemble_step *step, int64_t now,
                             int64_t deadline_at) {
    if (deadline_at == TT_NEVER)
        return 0;
    int64_t left = deadline_at > now ? deadline_at - now : 0, slack = left - step->path_ns;
    int64_t part = slack >= 0 ? step->alone_ns + part_of(slack, step->share_ppm)
                              : part_of(left, share_of(step->alone_ns, step->path_ns));
    return tt_instant_max(part, 1);
}

void tt_ensemble_check(const struct tt_ensemble *self) {
    uint64_t before = 0;
    tt_assert(self->quota >= 1);
    tt_assert(self->alone_ns >= 1);
    for (int32_t s = 0; s < self->step_count; s++) {
        const struct tt_ensemble_step *step = &self->steps[s];
        tt_assert((step->sources & ~before) == 0);
        tt_assert(step->alone_ns >= 0);
        tt_assert(step->path_ns >= step->alone_ns);
        tt_assert(step->share_ppm >= 0);
        tt_assert(step->share_ppm <= PPM);
        tt_assert(step->readers || step->share_ppm == PPM);
        for (int32_t r = 0; r < self->step_count; r++)
            tt_assert(!(step->readers & bit(r)) == !(self->steps[r].sources & bit(s)));
        before |= bit(s);
    }
    for (int32_t i = 0; i < self->output_count; i++)
        tt_assert(self->steps[self->outputs[i].step].is_shown);
}
