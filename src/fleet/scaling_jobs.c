#include "fleet/scaling_jobs.h"

#include "base/clock.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const int64_t visit_ns = 2 * TT_S, drain_visit_ns = 5 * TT_S;
static const int64_t confirm_ns = 20 * TT_S; /* of all nodes */

struct tt_scaling_job *tt_scaling_job_new(enum tt_scaling_work work, struct tt_fleet_node *node,
                                          void *owner, tt_scaling_done_fn *done) {
    struct tt_scaling_job *self = calloc(1, sizeof(*self));
    if (!self)
        return NULL;
    self->work = work;
    self->node = node;
    self->owner = owner;
    self->done = done;
    self->found = -1;
    self->uv.data = self;
    return self;
}

void tt_scaling_job_free(struct tt_scaling_job *take_job) {
    if (!take_job)
        return;
    tt_demand_copy_fini(&take_job->demand);
    free(take_job->homes);
    free(take_job->advice);
    free((void *)(uintptr_t)take_job->request.names);
    free(take_job->voters);
    free(take_job);
}

void tt_scaling_job_abandon(struct tt_scaling_job *self) {
    self->owner = NULL;
    tt_flag_raise(&self->stopping);
}

/* ---- confirm ---- */

/* The epoch that a node obeys. */
static enum tt_err epoch_of(const struct tt_scaling_job *self, uint16_t node, uint64_t *out_epoch,
                            struct tt_error *why) {
    struct tt_text text;
    tt_text_init(&text);
    enum tt_err err = tt_fleet_node_visit(self->node, node, "status", visit_ns, &text, why);
    if (!err) {
        json_error_t ignored;
        json_t *json = json_loads(tt_text_string(&text), 0, &ignored);
        const json_t *epoch = json_object_get(json, "epoch");
        if (json_is_integer(epoch))
            *out_epoch = (uint64_t)json_integer_value(epoch);
        else
            err = tt_fail(TT_ERR_INVALID, why, "the status of node %s has no epoch",
                          tt_fleet_node_name(self->node, node));
        json_decref(json);
    }
    tt_text_fini(&text);
    return err;
}

static enum tt_err confirm(void *context, struct tt_error *why) {
    const struct tt_scaling_job *self = context;
    int32_t obeying = 0;
    int64_t until_at = tt_instant_add(tt_clock_now(), confirm_ns);
    for (int32_t i = 0;
         i < self->voter_count && 2 * obeying <= self->voter_count && tt_clock_now() < until_at;
         i++) {
        uint64_t epoch = 0;
        struct tt_error ignored;
        if (tt_flag_is_raised(&self->stopping))
            return tt_fail(TT_ERR_CANCELLED, why, "the scheduler stops");
        if (epoch_of(self, self->voters[i], &epoch, &ignored))
            continue;
        if (epoch > self->epoch)
            return tt_fail(TT_ERR_UNAVAILABLE, why,
                           "node %s obeys epoch %" PRIu64 ", and this scheduler has %" PRIu64
                           ": another one is primary",
                           tt_fleet_node_name(self->node, self->voters[i]), epoch, self->epoch);
        obeying += epoch == self->epoch;
    }
    if (2 * obeying > self->voter_count)
        return TT_OK;
    return tt_fail(TT_ERR_UNAVAILABLE, why,
                   "%d of %d nodes answer that they obey this scheduler; more than half must, "
                   "before it scales",
                   obeying, self->voter_count);
}

/* ---- the work ---- */

static void advise(struct tt_scaling_job *self) {
    for (int32_t i = 0; i < self->pool_count; i++)
        tt_demand_copy_advise(&self->demand, self->homes, (uint16_t)i, &self->advice[i]);
}

/* A node that obeys a later primary refuses. */
static void drain(struct tt_scaling_job *self) {
    static const char error[] = "error: ";
    char line[48];
    struct tt_text answer;
    tt_text_init(&answer);
    snprintf(line, sizeof(line), "drain %" PRIu64, self->epoch);
    self->err =
        tt_fleet_node_visit(self->node, self->drained, line, drain_visit_ns, &answer, &self->why);
    const char *text = tt_text_string(&answer);
    if (!self->err && strncmp(text, error, sizeof(error) - 1) == 0)
        self->err = tt_fail(TT_ERR_UNAVAILABLE, &self->why, "%s", text + sizeof(error) - 1);
    tt_text_fini(&answer);
}

static void on_work(uv_work_t *work) {
    struct tt_scaling_job *self = work->data;
    switch (self->work) {
    case TT_SCALING_ADVICE: advise(self); break;
    case TT_SCALING_DRAIN: drain(self); break;
    case TT_SCALING_LOOK:
        self->err =
            self->provider->look(self->provider->self, &self->request, &self->found, &self->why);
        break;
    case TT_SCALING_CALL:
        self->err =
            self->provider->scale(self->provider->self, &self->request, &self->found, &self->why);
        break;
    }
}

static void on_worked(uv_work_t *work, int status) {
    struct tt_scaling_job *self = work->data;
    if (status)
        self->err = tt_fail(TT_ERR_CANCELLED, &self->why, "the work was cancelled");
    if (self->owner)
        self->done(self->owner, self);
    tt_scaling_job_free(self);
}

void tt_scaling_job_start(struct tt_scaling_job *take_job) {
    take_job->request.stopping = &take_job->stopping;
    take_job->request.confirm = confirm;
    take_job->request.context = take_job;
    int problem =
        uv_queue_work(tt_fleet_node_loop(take_job->node), &take_job->uv, on_work, on_worked);
    tt_assert(problem == 0); /* it fails without a function only */
}
