#include "core/waiting.h"

#include "base/instant.h"

const struct tt_queue_rule *tt_waiting_rule(const struct tt_mechanism *self,
                                            const struct tt_request *request) {
    const struct tt_step_model *model = self->models[request->model];
    if (!model->rules)
        return NULL;
    tt_assert(request->priority >= 0 && request->priority < model->rule_count);
    return &model->rules[request->priority];
}

int32_t *tt_waiting_count(const struct tt_mechanism *self, const struct tt_request *request) {
    return &self->waiting[(ptrdiff_t)request->model * (TT_QUEUE_MAX_LEVELS + 1) +
                          request->priority];
}

int64_t tt_waiting_latest_alone(const struct tt_mechanism *self, const struct tt_request *request) {
    if (request->deadline_at == TT_NEVER || tt_waiting_rule(self, request)->compute_late)
        return TT_NEVER;
    const struct tt_profile *whole = self->models[request->model]->whole;
    return request->deadline_at - tt_profile_tail(whole, request->rows, request->length);
}

void tt_waiting_begin(struct tt_mechanism *self, struct tt_request *request) {
    tt_assert(!request->waits);
    request->waits = true;
    ++*tt_waiting_count(self, request);
    if (!tt_waiting_is_late(request))
        tt_backlog_begin(&self->backlog, tt_mechanism_prior(self, request->model), request);
    int64_t latest_at = tt_waiting_latest_alone(self, request);
    if (latest_at != TT_NEVER)
        tt_heap_set(&self->latest, (int32_t)request->handle.index, latest_at, 0);
}

void tt_waiting_leave(struct tt_mechanism *self, struct tt_request *request) {
    tt_assert(request->waits);
    request->waits = false;
    --*tt_waiting_count(self, request);
    tt_assert(*tt_waiting_count(self, request) >= 0);
    if (!tt_waiting_is_late(request))
        tt_backlog_end(&self->backlog, tt_mechanism_prior(self, request->model), request);
    tt_heap_remove(&self->latest, (int32_t)request->handle.index);
}

void tt_waiting_make_late(struct tt_mechanism *self, struct tt_request *request) {
    if (request->waits)
        tt_backlog_end(&self->backlog, tt_mechanism_prior(self, request->model), request);
    tt_assert(!tt_waiting_is_late(request));
    request->deadline_at = TT_NEVER;
    request->number |= TT_REQUEST_LATE;
    tt_heap_remove(&self->latest, (int32_t)request->handle.index);
}
