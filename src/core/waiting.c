#include "core/waiting.h"

#include "base/instant.h"

enum { PAUSE = 8 };       /* share of a request's time between two looks at it */
enum { LEAST_TIMES = 4 }; /* its time alone: to end behind a running batch, and in its own */

int32_t *tt_waiting_count(const struct tt_mechanism *self, const struct tt_request *request) {
    return &self->waiting[(ptrdiff_t)request->model * (TT_QUEUE_MAX_LEVELS + 1) +
                          request->priority];
}

/* `others`: the number of other requests that wait for their deadlines. */
static int64_t latest_in(const struct tt_mechanism *self, const struct tt_request *request,
                         int32_t rows, int32_t others) {
    const struct tt_step_model *model = self->models[request->model];
    int64_t first_by_at = tt_request_first_by(request, &model->tokens);
    bool has_none = request->deadline_at == TT_NEVER && first_by_at == TT_NEVER;
    if (has_none || tt_waiting_rule(self, request)->compute_late)
        return TT_NEVER;
    return tt_step_latest(model, request->deadline_at, first_by_at, rows, request->length,
                          tt_mechanism_goes_by_centre(self, others));
}

static int32_t others_of(const struct tt_mechanism *self, const struct tt_request *request) {
    return self->latest.count - request->waits;
}

int64_t tt_waiting_latest_alone(const struct tt_mechanism *self, const struct tt_request *request) {
    return latest_in(self, request, request->rows, others_of(self, request));
}

/* The batch that the request must share, of at most `limit` rows; its own rows at least. */
static int32_t shared_rows(const struct tt_mechanism *self, const struct tt_request *request,
                           int32_t limit) {
    const struct tt_policy_traits *traits = self->traits;
    if (!self->overloads || traits->runs_alone || traits->drops_early ||
        tt_policy_runs_cells(traits) || tt_waiting_rule(self, request)->delay_late)
        return request->rows;
    int32_t target = self->overloads[request->model].target;
    int32_t rows = target < limit ? target : limit;
    return rows > request->rows ? rows : request->rows;
}

int64_t tt_waiting_latest(const struct tt_mechanism *self, const struct tt_request *request) {
    int32_t rows = shared_rows(self, request, *tt_waiting_count(self, request));
    return latest_in(self, request, rows, others_of(self, request));
}

void tt_waiting_look_again(struct tt_mechanism *self, int64_t now,
                           const struct tt_request *request) {
    const struct tt_profile *whole = self->models[request->model]->whole;
    /* A share of what is left, so that even short runs with much time need few looks. */
    int64_t run_ns = tt_profile_tail(whole, request->rows, request->length);
    int64_t alone_at = tt_waiting_latest_alone(self, request);
    int64_t pause_ns = tt_instant_max(alone_at - now, run_ns) / PAUSE;
    tt_heap_set(&self->latest, (int32_t)request->handle.index,
                tt_instant_min(alone_at, tt_instant_add(now, pause_ns)), 0);
}

/* Counts a request that is not late, and watches its latest start. */
static void enter_line(struct tt_mechanism *self, const struct tt_request *request) {
    tt_backlog_begin(&self->backlog, tt_mechanism_prior(self, request->model), request);
    /* Others may come, so it is looked at as early as they would have it given up. */
    int64_t latest_at = latest_in(self, request, shared_rows(self, request, INT32_MAX), 1);
    if (latest_at != TT_NEVER)
        tt_heap_set(&self->latest, (int32_t)request->handle.index, latest_at, 0);
}

void tt_waiting_begin(struct tt_mechanism *self, struct tt_request *request) {
    tt_assert(!request->waits);
    request->waits = true;
    ++*tt_waiting_count(self, request);
    if (!tt_waiting_is_late(request)) /* a late one has no deadline to watch */
        enter_line(self, request);
}

/* Takes the request from the late ones that have turns, if it is there. */
static void leave_turns(struct tt_mechanism *self, const struct tt_request *request) {
    tt_heap_remove(&self->by_age, (int32_t)request->handle.index);
    if (self->by_age.count == 0)
        self->passed_rows = 0;
}

void tt_waiting_leave(struct tt_mechanism *self, struct tt_request *request) {
    tt_assert(request->waits);
    request->waits = false;
    --*tt_waiting_count(self, request);
    tt_assert(*tt_waiting_count(self, request) >= 0);
    if (!tt_waiting_is_late(request))
        tt_backlog_end(&self->backlog, tt_mechanism_prior(self, request->model), request);
    tt_heap_remove(&self->latest, (int32_t)request->handle.index);
    leave_turns(self, request);
}

void tt_waiting_make_late(struct tt_mechanism *self, struct tt_request *request) {
    if (request->waits)
        tt_backlog_end(&self->backlog, tt_mechanism_prior(self, request->model), request);
    tt_assert(!tt_waiting_is_late(request));
    int64_t *allowed_ns = &self->allowed_ns[request->handle.index];
    if (*allowed_ns == TT_NEVER && request->deadline_at != TT_NEVER) /* not after a turn */
        *allowed_ns = request->deadline_at - request->arrived_at;
    request->deadline_at = TT_NEVER;
    request->first_given_up = true;
    if (tt_waiting_rule(self, request)->late_every > 0)
        tt_heap_set(&self->by_age, (int32_t)request->handle.index, request->number, 0);
    request->number |= TT_REQUEST_LATE;
    tt_heap_remove(&self->latest, (int32_t)request->handle.index);
}

void tt_waiting_renew(struct tt_mechanism *self, struct tt_request *request) {
    tt_assert(request->waits);
    tt_assert(tt_waiting_is_late(request));
    leave_turns(self, request);
    request->number = tt_request_arrival(request);
    const struct tt_profile *whole = self->models[request->model]->whole;
    int64_t least_ns = LEAST_TIMES * tt_profile_latency(whole, request->rows, request->length);
    int64_t allowed_ns = self->allowed_ns[request->handle.index];
    request->deadline_at = tt_instant_add(self->now, allowed_ns > least_ns ? allowed_ns : least_ns);
    enter_line(self, request);
}
