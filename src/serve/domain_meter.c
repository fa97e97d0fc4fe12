#include "serve/domain_meter.h"

#include "base/instant.h"
#include "serve/inference_state.h"
#include "serve/served_model_state.h"

#include <stdlib.h>

static struct tt_inference *inference_of(const struct tt_request *request) { return request->user; }

/* The oldest waiting request may have changed. */
static void note_oldest(struct tt_model_stats *stats) {
    struct tt_list_node *node = tt_list_first(&stats->in_line);
    int64_t since = node ? TT_CONTAINER_OF(node, struct tt_inference, waiting)->submitted_at : 0;
    tt_counter_set(&stats->waiting_since, since);
}

static void begins_to_wait(struct tt_inference *inference) {
    struct tt_model_stats *stats = inference->model->stats;
    bool is_first = tt_list_empty(&stats->in_line);
    tt_assert(!tt_list_linked(&inference->waiting));
    tt_list_push_back(&stats->in_line, &inference->waiting);
    tt_counter_add(&stats->waiting, 1);
    if (is_first)
        note_oldest(stats);
}

static void waits_no_longer(struct tt_inference *inference) {
    struct tt_model_stats *stats = inference->model->stats;
    tt_assert(tt_list_linked(&inference->waiting));
    bool was_first = tt_list_first(&stats->in_line) == &inference->waiting;
    tt_list_remove(&inference->waiting);
    tt_counter_add(&stats->waiting, -1);
    if (was_first)
        note_oldest(stats);
}

static void runs(int64_t now, const struct tt_task *task) {
    for (int32_t i = tt_task_first_beginner(task); i < task->count; i++) {
        if (!task->items[i].begins)
            continue;
        struct tt_inference *inference = inference_of(task->items[i].request);
        waits_no_longer(inference);
        struct tt_model_stats *stats = inference->model->stats;
        tt_duration_histogram_add(&stats->queueing, now - inference->submitted_at);
        if (inference->deadline_at != TT_NEVER)
            tt_duration_histogram_add(&stats->slack, inference->deadline_at - now);
    }
}

static struct tt_served_model *served_at(const struct tt_mechanism *domain, int32_t index) {
    return TT_CONTAINER_OF((struct tt_step_model *)tt_mechanism_prior(domain, index),
                           struct tt_served_model, step_model);
}

/* D2: counts rows of the model between steps, minus `less` that are about to leave. While
 * a model is loaded again, the counter is the sum of both versions. */
static void note_slots(const struct tt_mechanism *domain, int32_t index, int32_t less) {
    struct tt_served_model *model = served_at(domain, index);
    int32_t used = domain->kept_rows[index] - less;
    tt_counter_add(&model->stats->stage_slots_used, used - model->reported_stage_slots);
    model->reported_stage_slots = used;
}

/* What is believed of a model that came, or whose belief moved. */
static void note_belief(const struct tt_mechanism *domain, int32_t index) {
    struct tt_model_stats *stats = served_at(domain, index)->stats;
    const struct tt_step_model *believed = domain->models[index];
    int32_t rows[TT_BELIEVED_SIZES] = {1, believed->max_batch};
    for (int32_t i = 0; i < TT_BELIEVED_SIZES; i++) {
        tt_counter_set(&stats->believed[i].rows, rows[i]);
        tt_counter_set(&stats->believed[i].centre_ns,
                       tt_profile_latency(believed->whole, rows[i], 0));
        tt_counter_set(&stats->believed[i].tail_ns, tt_profile_tail(believed->whole, rows[i], 0));
    }
}

/* S4 */
static void note_delay(struct tt_domain_meter *self, const struct tt_mechanism *domain) {
    struct tt_network_delay delay = tt_mechanism_longest_delay(domain, self->given_delay);
    tt_counter_set(&self->control_delay_ns, delay.control_ns);
    tt_counter_set(&self->data_delay_ns, delay.data_ns);
}

static void observe(struct tt_observer *observer, const struct tt_event *event) {
    struct tt_domain_meter *self = TT_CONTAINER_OF(observer, struct tt_domain_meter, observer);
    if (event->kind == TT_EVENT_ARRIVED) {
        const struct tt_request *request = event->request;
        struct tt_inference *inference = inference_of(request);
        begins_to_wait(inference);
        if (tt_mechanism_slot_room(event->domain, request->model, request->rows) < request->rows)
            tt_counter_add(&inference->model->stats->stage_held_back, 1);
    } else if (event->kind == TT_EVENT_RUN) {
        runs(event->now, event->task);
        note_slots(event->domain, event->task->model, 0);
    } else if (event->kind == TT_EVENT_YIELD) {
        note_slots(event->domain, tt_mechanism_oldest(event->domain, event->index)->model, 0);
    } else if (event->kind == TT_EVENT_MODEL) {
        if (event->change == TT_CHANGE_BELIEF || event->change == TT_CHANGE_ADDED)
            note_belief(event->domain, event->index);
        if (event->change == TT_CHANGE_BELIEF)
            tt_counter_add(&served_at(event->domain, event->index)->stats->belief_moves, 1);
    } else if (event->kind == TT_EVENT_EXECUTOR) {
        note_delay(self, event->domain);
    } else if (event->kind == TT_EVENT_DECIDE) {
        tt_counter_set(&self->lateness_ns, event->domain->lateness.believed_ns);
    } else if (event->kind == TT_EVENT_FINISHED && event->task->started_at >= 0) {
        int64_t busy_ns = event->task->ended_at - event->task->started_at;
        tt_counter_add(&self->busy_ns[event->task->executor], busy_ns);
        tt_load_window_ran(&self->load, event->now, busy_ns);
    } else if (event->kind == TT_EVENT_ENDED) {
        struct tt_inference *inference = inference_of(event->request);
        if (tt_list_linked(&inference->waiting))
            waits_no_longer(inference);
        if (event->ending != TT_ENDING_CANCELLED)
            tt_load_window_ended(&self->load, event->now,
                                 event->ending != TT_ENDING_DONE ||
                                     event->now > inference->deadline_at);
        if (event->request->keeps_slots && !event->request->task) /* else it keeps them still */
            note_slots(event->domain, event->request->model, event->request->rows);
        if (event->ending == TT_ENDING_DONE)
            tt_duration_histogram_add(&inference->model->stats->answering,
                                      event->now - inference->submitted_at);
    }
}

void tt_domain_meter_left(const struct tt_mechanism *mechanism, int32_t model) {
    note_slots(mechanism, model, 0);
}

enum tt_err tt_domain_meter_init(struct tt_domain_meter *self, struct tt_mechanism *mechanism,
                                 struct tt_network_delay given_delay, struct tt_error *why) {
    self->given_delay = given_delay;
    self->executor_count = mechanism->executor_capacity;
    self->busy_ns = calloc((size_t)self->executor_count, sizeof(*self->busy_ns));
    if (!self->busy_ns)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a domain");
    self->observer.observe = observe;
    tt_mechanism_observe(mechanism, &self->observer);
    return TT_OK;
}

void tt_domain_meter_fini(struct tt_domain_meter *self) {
    free(self->busy_ns);
    self->busy_ns = NULL;
}
