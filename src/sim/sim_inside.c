#include "sim/sim_inside.h"

#include "base/array.h"
#include "base/instant.h"
#include "core/early_answer.h"

#include <stdlib.h>

/* A device's simulation. Its requests are numbered as they come, so those of a task follow each
 * other. */
struct tt_sim_inside {
    struct tt_simulation *outer, *inner;
    int32_t first_executor, executor_count; /* of the outer one, on this device */
    int64_t given;                          /* requests so far */
    struct tt_sim_arrival *waiting;         /* [waiting_count]: not taken yet, from `taken` on */
    int64_t waiting_capacity, waiting_count, taken;
};

/* ---- the inner simulation ---- */

static bool next_given(void *context, struct tt_sim_arrival *out_arrival) {
    struct tt_sim_inside *self = context;
    if (self->taken == self->waiting_count) {
        self->taken = self->waiting_count = 0;
        return false;
    }
    *out_arrival = self->waiting[self->taken++];
    return true;
}

static struct tt_sim_executor *executor_of(const struct tt_sim_inside *self, int64_t number,
                                           int32_t *out_index) {
    int32_t e = self->first_executor;
    for (; e < self->first_executor + self->executor_count; e++) {
        const struct tt_sim_executor *executor = &self->outer->executors[e];
        if (executor->phase == TT_SIM_INSIDE && number >= executor->inside_first &&
            number < executor->inside_first + executor->inside_count)
            break;
    }
    tt_assert(e < self->first_executor + self->executor_count);
    *out_index = e;
    return &self->outer->executors[e];
}

static void ended_inside(void *context, const struct tt_sim_ending *ending) {
    const struct tt_sim_inside *self = context;
    struct tt_simulation *outer = self->outer;
    int32_t index;
    struct tt_sim_executor *executor = executor_of(self, ending->number, &index);
    struct tt_task *task = tt_mechanism_oldest(&outer->mechanism, index);
    struct tt_task_item *item = &task->items[ending->number - executor->inside_first];
    executor->inside_left--;
    outer->requests[item->request->handle.index].tokens = ending->tokens;
    if (ending->ending != TT_ENDING_DONE)
        item->fate = TT_FATE_FAILS;
    else if (executor->inside_left > 0 && !item->request->cancelled)
        tt_mechanism_answered(&outer->mechanism, outer->now, item->request);
    if (executor->inside_left > 0)
        return;
    task->ended_at = outer->now;
    executor->last_step_done = task->last_step;
    if (outer->observer.step_ended)
        outer->observer.step_ended(outer->observer.context, outer->now, task, task->last_step);
    tt_heap_set(&outer->due, index, outer->now, index);
}

static enum tt_err open_inside(struct tt_sim_inside *self, const struct tt_sim_options *options,
                               int32_t device, struct tt_error *why) {
    const struct tt_sim_inside_options *inside = options->inside;
    const struct tt_sim_device *outer = &options->devices[device];
    const struct tt_sim_device own = {.executors = inside->executors,
                                      .processors = outer->processors,
                                      .copy_in = outer->copy_in,
                                      .copy_out = outer->copy_out,
                                      .pool_slots = outer->pool_slots};
    const struct tt_sim_options inner = {.models = inside->models,
                                         .model_count = options->model_count,
                                         .devices = &own,
                                         .device_count = 1,
                                         .depth = inside->depth,
                                         .abort_ns = options->abort_ns,
                                         .jitter_permille = options->jitter_permille,
                                         .noise = options->noise,
                                         .seed = options->seed + 1 + (uint64_t)device,
                                         .check = options->check,
                                         .perturbations = options->perturbations,
                                         .perturbation_count = options->perturbation_count,
                                         .source = {.context = self, .next = next_given},
                                         .observer = {.context = self, .ended = ended_inside},
                                         .create_policy = inside->create_policy,
                                         .create_context = inside->create_context};
    return tt_simulation_new(&inner, &self->inner, why);
}

enum tt_err tt_sim_insides_init(struct tt_simulation *self, const struct tt_sim_options *options,
                                struct tt_error *why) {
    self->insides = calloc((size_t)options->device_count, sizeof(*self->insides));
    if (!self->insides)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for %d devices",
                       options->device_count);
    enum tt_err err = TT_OK;
    int32_t executor = 0;
    for (int32_t d = 0; !err && d < options->device_count; d++) {
        self->insides[d] = (struct tt_sim_inside){.outer = self,
                                                  .first_executor = executor,
                                                  .executor_count = options->devices[d].executors};
        executor += options->devices[d].executors;
        err = open_inside(&self->insides[d], options, d, why);
    }
    return err;
}

void tt_sim_insides_fini(struct tt_simulation *self) {
    for (int32_t d = 0; self->insides && d < self->device_count; d++) {
        tt_simulation_free(self->insides[d].inner);
        free(self->insides[d].waiting);
    }
    free(self->insides);
}

const struct tt_token_slo *tt_sim_inside_token_slo(const struct tt_simulation *self,
                                                   int32_t model) {
    return &self->insides[0].inner->models[model].step_model->tokens;
}

/* ---- time ---- */

int64_t tt_sim_insides_earliest(const struct tt_simulation *self) {
    int64_t at = TT_NEVER;
    for (int32_t d = 0; d < self->device_count; d++)
        at = tt_instant_min(at, tt_simulation_next_at(self->insides[d].inner));
    return at;
}

void tt_sim_insides_run(struct tt_simulation *self) {
    for (int32_t d = 0; self->insides && d < self->device_count; d++)
        if (tt_simulation_next_at(self->insides[d].inner) <= self->now)
            tt_simulation_run_until(self->insides[d].inner, self->now);
}

/* ---- tasks ---- */

static struct tt_sim_arrival arrival_of(const struct tt_simulation *self,
                                        const struct tt_request *request) {
    const struct tt_sim_request *known = &self->requests[request->handle.index];
    return (struct tt_sim_arrival){.at = self->now,
                                   .deadline_at =
                                       tt_mechanism_promised_at(&self->mechanism, request),
                                   .cancel_at = TT_NEVER,
                                   .model = request->model,
                                   .rows = request->rows,
                                   .length = request->length,
                                   .output_length = known->output_length,
                                   .priority = request->priority,
                                   .exit_step = known->exit_step,
                                   .exit_to = known->exit_to};
}

void tt_sim_inside_begin(struct tt_simulation *self, const struct tt_task *task) {
    struct tt_sim_executor *executor = &self->executors[task->executor];
    struct tt_sim_inside *inside = &self->insides[executor->device];
    bool has_room = TT_ARRAY_RESERVE(inside->waiting, &inside->waiting_capacity,
                                     inside->waiting_count + task->count);
    tt_assert(has_room);
    executor->phase = TT_SIM_INSIDE;
    executor->inside_first = inside->given;
    executor->inside_count = executor->inside_left = task->count;
    for (int32_t i = 0; i < task->count; i++)
        inside->waiting[inside->waiting_count++] = arrival_of(self, task->items[i].request);
    inside->given += task->count;
    tt_simulation_wake(inside->inner);
}
