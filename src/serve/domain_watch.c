#include "serve/domain_watch.h"

#include "base/instant.h"
#include "serve/domain.h"
#include "serve/domain_task.h"
#include "serve/inference_end.h"
#include "serve/inference_state.h"
#include "serve/served_model.h"
#include "serve/served_model_state.h"
#include "serve/unfolder.h"

#include <stdio.h>
#include <stdlib.h>

enum tt_err tt_domain_watch_init(struct tt_domain_watch *self, int32_t executor_count,
                                 int32_t first_spare) {
    self->runs = calloc((size_t)executor_count, sizeof(*self->runs));
    self->given_up = calloc((size_t)executor_count, sizeof(*self->given_up));
    for (int32_t i = 0; i < TT_DOMAIN_SPARES; i++)
        self->spares[self->spare_count++] = first_spare + i;
    return self->runs && self->given_up ? TT_OK : TT_ERR_NO_MEMORY;
}

void tt_domain_watch_fini(struct tt_domain_watch *self) {
    tt_assert(tt_counter_get(&self->lost) == 0);
    free(self->runs);
    free(self->given_up);
}

/* ---- the watchdog ---- */

static void give_up(struct tt_domain *self, int32_t executor,
                    const struct tt_engine_running *running, struct tt_domain_look *look) {
    struct tt_domain_watch *watch = &self->watch;
    struct tt_error ignored;
    if (running->is_here || watch->spare_count == 0 ||
        self->engine->ops->watch->prepare(self->engine, self->first_executor + executor,
                                          &ignored) != TT_OK) {
        look->is_exhausted = true;
        return;
    }
    watch->given_up[executor] = *running;
    watch->gives_up = true;
    look->needs_turn = true;
}

static void set_failed(struct tt_domain *self, struct tt_served_model *model);

/* The unfold plug-ins of its models. */
static void look_at_plugins(struct tt_domain *self, struct tt_domain_look *look) {
    int32_t left = self->model_count;
    for (int32_t m = 0; left > 0; m++) {
        struct tt_served_model *model = self->models[m];
        left -= model != NULL;
        if (!model || !model->unfolder ||
            !tt_unfolder_look(model->unfolder, look->elapsed_ns,
                              look->hurries ? 1 : model->max_run_ns))
            continue;
        tt_counter_add(&model->stats->runs_lost, 1);
        look->needs_turn = true;
        if (look->hurries || *model->failure)
            continue;
        snprintf(model->failure, sizeof(model->failure),
                 "its unfold plug-in did not return within %lld ms, the model's maximum "
                 "(max_run_ms): its thread is lost; load the model again to serve it",
                 (long long)(model->max_run_ns / TT_MS));
        set_failed(self, model);
    }
}

static void look_at_device(struct tt_domain *self, struct tt_domain_look *look) {
    struct tt_error why;
    struct tt_engine *engine = self->engine;
    if (self->watch.is_without || !engine->ops->has_failed ||
        !engine->ops->has_failed(engine, &why))
        return;
    self->watch.device_failed = true;
    look->needs_turn = true;
}

void tt_domain_watch_look(struct tt_domain *self, struct tt_domain_look *look) {
    const struct tt_engine_watch_ops *ops = self->engine->ops->watch;
    self->watch.hurries = look->hurries;
    look_at_plugins(self, look);
    look_at_device(self, look);
    for (int32_t e = 0; ops && e < self->executor_count; e++) {
        struct tt_run_watch *run = &self->watch.runs[e];
        struct tt_engine_running running;
        if (!ops->running(self->engine, self->first_executor + e, &running)) {
            tt_run_watch_idle(run);
            continue;
        }
        int64_t limit_ns = look->hurries ? 1 : running.max_run_ns;
        int64_t patience_ns =
            tt_instant_max(look->least_patience_ns, tt_instant_min(limit_ns, look->patience_ns));
        switch (
            tt_run_watch_look(run, running.started_at, look->elapsed_ns, limit_ns, patience_ns)) {
        case TT_RUN_GOES_ON: break;
        case TT_RUN_CUT: ops->cut(self->engine, &running); break;
        case TT_RUN_GIVE_UP: give_up(self, e, &running, look); break;
        }
    }
}

int64_t tt_domain_watch_lost(const struct tt_domain *self) {
    int64_t lost = tt_counter_get(&self->watch.lost);
    int32_t left = self->model_count;
    for (int32_t m = 0; left > 0; m++) {
        left -= self->models[m] != NULL;
        if (self->models[m] && self->models[m]->unfolder)
            lost += tt_unfolder_lost(self->models[m]->unfolder);
    }
    return lost;
}

/* ---- models that fail ---- */

/* Tasks of the model that wait behind others need not begin. */
static void abort_queued(struct tt_domain *self, const struct tt_served_model *model) {
    for (int32_t e = 0; e < self->executor_count; e++) {
        const struct tt_executor *executor = &self->mechanism.executors[e];
        for (int32_t k = 1; k < executor->queued; k++) {
            int32_t at = (executor->oldest + k) % executor->depth;
            struct tt_domain_task *task = executor->tasks[at].user;
            if (executor->tasks[at].model == model->index && !tt_list_linked(&task->decided))
                tt_engine_abort(self->engine, &task->engine_task);
        }
    }
}

/* `failure` is set. */
static void set_failed(struct tt_domain *self, struct tt_served_model *model) {
    self->watch.withdraws = true;
    self->has_news = true;
    abort_queued(self, model);
    self->client.failed(self->client.context, model);
}

static void fail_model(struct tt_domain *self, struct tt_served_model *model, int32_t rows,
                       bool is_lost) {
    tt_counter_add(is_lost ? &model->stats->runs_lost : &model->stats->runs_cut, 1);
    self->watch.withdraws = true;
    if (self->watch.hurries || *model->failure)
        return;
    snprintf(model->failure, sizeof(model->failure),
             "a batch of %d row%s ran longer than %lld ms, the model's maximum (max_run_ms), and "
             "%s; load the model again to serve it",
             rows, rows == 1 ? "" : "s", (long long)(model->max_run_ns / TT_MS),
             is_lost ? "did not stop: its thread is lost" : "was stopped");
    set_failed(self, model);
}

static void blame(const struct tt_domain *self, struct tt_inference *inference, int32_t rows) {
    const struct tt_served_model *model = inference->model;
    if (self->watch.hurries)
        inference->err =
            tt_fail(TT_ERR_UNAVAILABLE, &inference->why,
                    "request to model '%s' failed: the server is stopping", model->name);
    else
        inference->err = tt_fail(
            TT_ERR_TIMEOUT, &inference->why,
            "request to model '%s' failed: its batch of %d row%s ran longer than %lld ms, "
            "the model's maximum (max_run_ms)",
            model->name, rows, rows == 1 ? "" : "s", (long long)(model->max_run_ns / TT_MS));
}

bool tt_domain_watch_was_cut(const struct tt_engine_task *task) {
    if (!task->was_cut)
        return false;
    bool failed = task->head.outcome == TT_OUTCOME_ABORTED;
    for (int32_t i = 0; i < task->member_count && !failed; i++)
        failed = (task->kind == TT_ENGINE_REQUESTS ? task->members[i].err
                  : task->kind == TT_ENGINE_CELLS  ? task->cells[i].err
                                                   : task->sequences[i].err) != TT_OK;
    return failed;
}

/* The inference of the item; NULL: by cells, its end was reported. */
static struct tt_inference *inference_of(const struct tt_task_item *item) {
    return tt_domain_inference_of(item->request);
}

static void refuse(struct tt_inference *inference) {
    inference->err =
        tt_fail(TT_ERR_UNAVAILABLE, &inference->why, "request to model '%s' failed: %s",
                inference->model->name, inference->model->failure);
}

void tt_domain_watch_fail(struct tt_domain *self, struct tt_domain_task *slot, bool was_cut) {
    struct tt_task *task = slot->task;
    if (was_cut)
        fail_model(self, self->models[task->model], task->rows, false);
    for (int32_t i = 0; i < task->count; i++) {
        struct tt_inference *inference = inference_of(&task->items[i]);
        if (slot->engine_task.head.outcome == TT_OUTCOME_ABORTED && !was_cut &&
            task->items[i].fate == TT_FATE_FAILS)
            continue; /* D4: in the task that this one followed, which said why */
        if (inference && was_cut)
            blame(self, inference, task->rows);
        else if (inference)
            refuse(inference);
    }
}

void tt_domain_watch_withdraw(struct tt_domain *self, int64_t now) {
    const struct tt_request_pool *pool = &self->mechanism.requests;
    self->watch.withdraws = false;
    self->watch.withdrawing = true;
    for (int32_t i = 0; i < pool->chunk_count * TT_REQUEST_CHUNK; i++) {
        struct tt_request *request = tt_request_pool_at(pool, (uint32_t)i);
        bool waits = request->state == TT_REQUEST_QUEUED ||
                     (request->state == TT_REQUEST_RUNNING && request->graph);
        if (waits && *self->models[request->model]->failure)
            tt_mechanism_cancelled(&self->mechanism, now, request);
    }
    self->watch.withdrawing = false;
}

/* ---- runs that do not return ---- */

/* The engine keeps what the inference brought. What it will write goes nowhere else. */
static void leave_to_engine(struct tt_domain *self, struct tt_inference *inference,
                            const struct tt_engine_running *running, const struct tt_task *task,
                            int64_t now) {
    if (task->first_step == 0)
        inference->started_at = running->started_at;
    inference->computed_at = now;
    inference->result = NULL;
    inference->state = NULL;
    if (inference->cell_run)
        inference->cell_run->is_lost = true;
    else
        inference->is_lost = true;
    blame(self, inference, task->rows);
}

static void lose(struct tt_domain *self, int64_t now, int32_t executor,
                 const struct tt_engine_running *running) {
    struct tt_domain_watch *watch = &self->watch;
    struct tt_task *task = tt_mechanism_oldest(&self->mechanism, executor);
    struct tt_domain_task *slot = task ? task->user : NULL;
    if (!slot || &slot->engine_task != running->task || watch->spare_count == 0 ||
        !self->engine->ops->watch->replace(self->engine, running))
        return; /* it has come back */
    struct tt_served_model *model = self->models[task->model];
    self->places[(ptrdiff_t)executor * self->depth +
                 (task - self->mechanism.executors[executor].tasks)] =
        watch->spares[--watch->spare_count];
    slot->lost_model = tt_served_model_ref(model);
    slot->task = NULL;
    tt_counter_add(&watch->lost, 1);
    task->user = NULL;
    task->outcome = TT_OUTCOME_FAILED;
    task->last_step_done = task->first_step - 1;
    task->started_at = running->started_at;
    task->ended_at = now;
    fail_model(self, model, task->rows, true);
    for (int32_t i = 0; i < task->count; i++) {
        struct tt_cell_subgraph *subgraph = task->items[i].subgraph;
        if (subgraph)
            ((struct tt_cell_run *)subgraph->user)->is_lost = true;
        if (inference_of(&task->items[i]))
            leave_to_engine(self, inference_of(&task->items[i]), running, task, now);
    }
    self->has_news = true;
    tt_mechanism_finished(&self->mechanism, now, task);
}

void tt_domain_watch_take_back(struct tt_domain *self, struct tt_domain_task *slot) {
    struct tt_engine_task *task = &slot->engine_task;
    const struct tt_engine_ops *ops = self->engine->ops;
    for (int32_t i = 0; task->kind == TT_ENGINE_REQUESTS && i < task->member_count; i++) {
        struct tt_engine_member *member = &task->members[i];
        if (member->result)
            ops->result_release(member->result);
        ops->state_release(member->state);
        if (member->user) /* not the blank rows */
            self->client.given_back(self->client.context, member->user);
    }
    struct tt_served_model *model = slot->lost_model;
    slot->lost_model = NULL;
    self->watch.spares[self->watch.spare_count++] = (int32_t)(slot - self->tasks);
    tt_counter_add(&self->watch.lost, -1);
    tt_served_model_unref(model);
}

/* The tasks come back as all others. */
static void lose_device(struct tt_domain *self) {
    struct tt_engine *engine = self->engine;
    struct tt_error why = {""};
    bool has_failed = engine->ops->has_failed(engine, &why);
    tt_assert(has_failed);
    self->watch.device_failed = false;
    int32_t left = self->model_count;
    for (int32_t m = 0; left > 0; m++) {
        struct tt_served_model *model = self->models[m];
        left -= model != NULL;
        if (!model || *model->failure)
            continue;
        snprintf(model->failure, sizeof(model->failure), "%s; load the model again to serve it",
                 why.text);
        set_failed(self, model);
    }
    self->watch.is_without =
        engine->ops->return_failed(engine); /* else the next look tries again */
}

void tt_domain_watch_collect(struct tt_domain *self, int64_t now) {
    struct tt_domain_watch *watch = &self->watch;
    if (watch->device_failed)
        lose_device(self);
    for (int32_t e = 0; watch->gives_up && e < self->executor_count; e++) {
        if (watch->given_up[e].task)
            lose(self, now, e, &watch->given_up[e]);
        watch->given_up[e].task = NULL;
    }
    watch->gives_up = false;
}

void tt_domain_watch_check(const struct tt_domain *self) {
    const struct tt_domain_watch *watch = &self->watch;
    int32_t used = self->executor_count * self->depth, lost = 0;
    for (int32_t i = 0; i < used + TT_DOMAIN_SPARES; i++) {
        int32_t users = self->tasks[i].lost_model != NULL;
        lost += users;
        for (int32_t k = 0; k < used; k++)
            users += self->places[k] == i;
        for (int32_t k = 0; k < watch->spare_count; k++)
            users += watch->spares[k] == i;
        tt_assert(users == 1);
    }
    tt_assert(!watch->device_failed || !watch->is_without);
    tt_assert(lost == tt_counter_get(&watch->lost));
    tt_assert(lost + watch->spare_count == TT_DOMAIN_SPARES);
}
