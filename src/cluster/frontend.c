#include "cluster/frontend.h"

#include "base/instant.h"

#include <stdlib.h>

/* ---- the table of requests ---- */

enum { INDEX_BITS = 16, GENERATION_BITS = 32, NO_REQUEST = -1 };

struct tt_frontend_request *tt_frontend_find(struct tt_frontend *self, uint64_t id) {
    int32_t index = tt_frontend_index(id);
    if (index >= self->settings->request_limit || id == 0 || self->requests[index].id != id)
        return NULL;
    return &self->requests[index];
}

static int32_t index_of(const struct tt_frontend *self, const struct tt_frontend_request *request) {
    return (int32_t)(request - self->requests);
}

enum tt_err tt_frontend_init(struct tt_frontend *self, const struct tt_cluster_settings *settings,
                             uint16_t number, uint16_t incarnation, int64_t now) {
    tt_assert(settings->request_limit >= 1 && settings->request_limit <= 1 << INDEX_BITS);
    tt_assert(settings->nodes[number].role == TT_ROLE_FRONTEND);
    *self = (struct tt_frontend){
        .settings = settings,
        .number = number,
        .alone_since = now,
        .generation = (uint64_t)incarnation << GENERATION_BITS,
        .requests = calloc((size_t)settings->request_limit, sizeof(*self->requests)),
        .absent = calloc((size_t)tt_cluster_model_capacity(settings), sizeof(*self->absent))};
    if (!self->requests || !self->absent || tt_heap_init(&self->due, settings->request_limit) ||
        tt_model_duty_init(&self->models, settings->model_count,
                           tt_cluster_model_capacity(settings), &self->outbox)) {
        tt_frontend_fini(self);
        return TT_ERR_NO_MEMORY;
    }
    for (int32_t i = 0; i < settings->request_limit; i++)
        self->requests[i].next_free = i + 1 < settings->request_limit ? i + 1 : NO_REQUEST;
    return TT_OK;
}

void tt_frontend_fini(struct tt_frontend *self) {
    tt_heap_fini(&self->due);
    tt_model_duty_fini(&self->models);
    tt_outbox_fini(&self->outbox);
    free(self->requests);
    free(self->absent);
    self->requests = NULL;
    self->absent = NULL;
}

/* ---- tickets ---- */

static void send_ticket(struct tt_frontend *self, int64_t now,
                        struct tt_frontend_request *request) {
    tt_assert(self->linked && !request->ticketed);
    int64_t left = TT_NEVER;
    if (request->deadline_at != TT_NEVER)
        left = tt_instant_max(request->deadline_at - now, 0);
    request->attempt++;
    request->ticketed = true;
    request->backend = TT_CLUSTER_NO_NODE;
    tt_outbox_add(&self->outbox, tt_epoch_scheduler(self->primary.epoch), TT_FRAME_TICKET,
                  self->primary.epoch,
                  &(struct tt_frame_record){.id = request->id,
                                            .duration_ns = left,
                                            .length = (uint32_t)request->length,
                                            .model = request->model,
                                            .rows = request->rows,
                                            .attempt = request->attempt,
                                            .code = request->priority});
}

static void withdraw(struct tt_frontend *self, struct tt_frontend_request *request) {
    if (request->ticketed && self->linked)
        tt_outbox_add(&self->outbox, tt_epoch_scheduler(self->primary.epoch), TT_FRAME_CANCEL,
                      self->primary.epoch,
                      &(struct tt_frame_record){.id = request->id, .attempt = request->attempt});
    request->ticketed = false;
}

/* No client waits for the request: its places at the scheduler and at its backend are given back.
 */
static void recall(struct tt_frontend *self, struct tt_frontend_request *request) {
    withdraw(self, request);
    if (request->backend != TT_CLUSTER_NO_NODE)
        tt_outbox_add(&self->outbox, request->backend, TT_FRAME_CANCEL, self->primary.epoch,
                      &(struct tt_frame_record){.id = request->id, .attempt = request->attempt});
}

/* The request leaves, and its client gets the answer. */
static void end(struct tt_frontend *self, struct tt_frontend_request *request,
                enum tt_answer answer, int32_t reason) {
    void *user = request->user;
    int32_t index = index_of(self, request);
    tt_assert(request->id != 0);
    tt_heap_remove(&self->due, index);
    *request = (struct tt_frontend_request){.next_free = self->first_free};
    self->first_free = index;
    self->live--;
    self->ended++;
    self->answered(self->context, user, answer, reason);
}

/* What its client has cannot be taken back, and another attempt might say something else. */
static void break_off(struct tt_frontend *self, struct tt_frontend_request *request,
                      uint16_t backend) {
    recall(self, request);
    end(self, request, TT_ANSWER_BROKEN, backend);
}

/* Its attempt came to nothing: the request is tried again, at its old deadline. */
static void try_again(struct tt_frontend *self, int64_t now, struct tt_frontend_request *request) {
    request->ticketed = false;
    request->backend = TT_CLUSTER_NO_NODE;
    if (request->attempt >= TT_FRONTEND_ATTEMPTS)
        end(self, request, TT_ANSWER_FAILED, 0);
    else if (self->linked)
        send_ticket(self, now, request);
}

static void lost_backend(struct tt_frontend *self, int64_t now, struct tt_frontend_request *request,
                         uint16_t backend, bool died) {
    if (request->words > 0) {
        break_off(self, request, backend);
        return;
    }
    if (died && request->dead_backend != backend) {
        request->dead_backend = backend;
        request->deaths++;
    }
    if (request->deaths < TT_FRONTEND_DEATHS) {
        try_again(self, now, request);
        return;
    }
    withdraw(self, request);
    end(self, request, TT_ANSWER_QUARANTINED, 0);
}

enum tt_err tt_frontend_submit(struct tt_frontend *self, int64_t now,
                               const struct tt_frontend_submission *submission, uint64_t *out_id) {
    tt_assert(submission->model < self->settings->model_count && submission->rows > 0);
    if (!self->linked && now - self->alone_since >= self->settings->patience_ns)
        return TT_ERR_UNAVAILABLE;
    if (self->absent[submission->model])
        return TT_ERR_UNAVAILABLE;
    if (self->first_free == NO_REQUEST)
        return TT_ERR_BUSY;
    int32_t index = self->first_free;
    struct tt_frontend_request *request = &self->requests[index];
    self->first_free = request->next_free;
    self->generation++;
    *request = (struct tt_frontend_request){.id = self->generation << INDEX_BITS | (uint64_t)index,
                                            .deadline_at = submission->deadline_at,
                                            .user = submission->user,
                                            .length = submission->length,
                                            .model = submission->model,
                                            .rows = submission->rows,
                                            .priority = submission->priority,
                                            .streams = submission->streams,
                                            .backend = TT_CLUSTER_NO_NODE,
                                            .dead_backend = TT_CLUSTER_NO_NODE};
    self->live++;
    self->accepted++;
    if (request->deadline_at != TT_NEVER)
        tt_heap_set(&self->due, index, request->deadline_at + self->settings->grace_ns, index);
    if (self->linked)
        send_ticket(self, now, request);
    *out_id = request->id;
    return TT_OK;
}

bool tt_frontend_cancel(struct tt_frontend *self, uint64_t id) {
    struct tt_frontend_request *request = tt_frontend_find(self, id);
    if (!request)
        return false;
    recall(self, request);
    end(self, request, TT_ANSWER_CANCELLED, 0);
    return true;
}

bool tt_frontend_wish(struct tt_frontend *self, uint64_t number, uint16_t model, bool is_load) {
    if (!self->linked)
        return false;
    tt_outbox_begin(&self->outbox, tt_epoch_scheduler(self->primary.epoch), TT_FRAME_WISH,
                    self->primary.epoch,
                    &(struct tt_frame_record){.id = number, .model = model, .code = is_load});
    return true;
}

/* ---- the primary ---- */

/* Everything that no backend has fetched goes to the scheduler, also what an earlier one had. */
static void submit_all(struct tt_frontend *self, int64_t now) {
    for (int32_t i = 0; i < self->settings->request_limit; i++) {
        struct tt_frontend_request *request = &self->requests[i];
        if (request->id != 0 && request->backend == TT_CLUSTER_NO_NODE)
            try_again(self, now, request);
    }
}

static void forget_tickets(struct tt_frontend *self) {
    for (int32_t i = 0; i < self->settings->request_limit; i++)
        self->requests[i].ticketed = false;
}

static void on_claim(struct tt_frontend *self, int64_t now, uint16_t from, uint64_t epoch) {
    bool is_new = epoch > self->primary.epoch || !self->linked;
    if (!tt_allegiance_claim(&self->primary, now, from, epoch, &self->outbox) || !is_new)
        return;
    self->linked = true;
    forget_tickets(self);
    submit_all(self, now);
}

/* The attempt is the latest, or the earlier one that its backend has fetched. */
static bool is_under_way(const struct tt_frontend_request *request,
                         const struct tt_frame_record *record) {
    return request->attempt == record->attempt ||
           (request->backend == record->node && request->fetched == record->attempt);
}

static void on_return(struct tt_frontend *self, int64_t now, const struct tt_frame_record *record) {
    struct tt_frontend_request *request = tt_frontend_find(self, record->id);
    if (!request || !is_under_way(request, record))
        return;
    if (request->words > 0 && record->code != 1) {
        request->ticketed = false; /* its backend is only suspected, and goes on with it */
        return;
    }
    if (request->backend == record->node || request->backend == TT_CLUSTER_NO_NODE)
        lost_backend(self, now, request, record->node, record->code == 1);
}

static void on_drop(struct tt_frontend *self, const struct tt_frame_record *record) {
    struct tt_frontend_request *request = tt_frontend_find(self, record->id);
    if (!request || request->attempt != record->attempt || request->backend != TT_CLUSTER_NO_NODE)
        return;
    request->ticketed = false;
    end(self, request, TT_ANSWER_DROPPED, record->code);
}

static void on_serve(struct tt_frontend *self, uint16_t from, const struct tt_frame *frame) {
    if (!tt_model_duty_receive(&self->models, from, frame)) {
        self->rejected++;
        return;
    }
    for (int32_t i = 0; i < frame->count; i++)
        self->absent[i] = frame->records[i].code == 1 && frame->records[i].rows == 1;
}

bool tt_frontend_is_starved(const struct tt_frontend *self) {
    bool any_absent = false;
    for (int32_t i = 0; i < self->settings->model_count; i++) {
        if (!self->absent[i] && tt_model_duty_serves(&self->models, i))
            return false;
        any_absent |= self->absent[i];
    }
    return any_absent;
}

/* ---- backends ---- */

/* The backend may fetch the request's input; with words, it has done so before. */
static bool may_fetch(const struct tt_frontend_request *request, uint16_t from,
                      const struct tt_frame_record *record) {
    if (record->attempt > request->attempt)
        return false;
    return request->backend == TT_CLUSTER_NO_NODE ||
           (request->backend == from &&
            (request->words == 0 || record->attempt == request->fetched));
}

static void on_fetch(struct tt_frontend *self, uint16_t from,
                     const struct tt_frame_record *record) {
    struct tt_frontend_request *request = tt_frontend_find(self, record->id);
    bool is_here = request && may_fetch(request, from, record);
    if (is_here) {
        if (record->attempt != request->attempt) /* granted by an earlier scheduler */
            withdraw(self, request);
        request->backend = from;
        request->fetched = record->attempt;
    }
    struct tt_frame_record answer = {.id = record->id, .attempt = record->attempt, .code = is_here};
    if (record->code != 1) {
        tt_outbox_add(&self->outbox, from, TT_FRAME_INPUT, self->primary.epoch, &answer);
    } else if (!is_here && !(request && request->backend == from)) {
        /* It has read what is of no use any more. A CANCEL counts for earlier attempts, too, so
         * one that it still runs is spared. */
        answer.code = 0;
        tt_outbox_add(&self->outbox, from, TT_FRAME_CANCEL, self->primary.epoch, &answer);
    }
}

static void on_result(struct tt_frontend *self, uint16_t from,
                      const struct tt_frame_record *record) {
    struct tt_frontend_request *request = tt_frontend_find(self, record->id);
    if (!request)
        return; /* answered already, by another attempt or by its deadline */
    if (record->attempt > request->attempt) {
        self->rejected++;
        return;
    }
    bool is_latest = request->backend == from && request->fetched == record->attempt;
    if ((record->code != 1 || request->streams) && !is_latest)
        return; /* another attempt is under way, perhaps on the same backend */
    if (request->backend != from)
        withdraw(self, request);
    end(self, request, record->code == 1 ? TT_ANSWER_DONE : TT_ANSWER_FAILED, 0);
}

static void on_words(struct tt_frontend *self, uint16_t from,
                     const struct tt_frame_record *record) {
    struct tt_frontend_request *request = tt_frontend_find(self, record->id);
    if (!request || request->backend != from || request->fetched != record->attempt)
        return; /* answered already, or another attempt is under way */
    if (!request->streams || record->rows == 0 || record->duration_ns != request->words) {
        self->rejected++;
        return;
    }
    request->words += record->rows;
    self->words(self->context, request->user, from, record->rows);
}

/* ---- what the driver reports ---- */

void tt_frontend_receive(struct tt_frontend *self, int64_t now, uint16_t from,
                         const struct tt_frame *frame) {
    enum tt_cluster_role role = self->settings->nodes[from].role;
    if (role == TT_ROLE_FRONTEND) {
        self->rejected++;
        return;
    }
    tt_allegiance_hear(&self->primary, now, from, frame->epoch);
    bool from_primary = self->primary.epoch != 0 && frame->epoch == self->primary.epoch &&
                        from == tt_epoch_scheduler(frame->epoch);
    if (frame->type == TT_FRAME_CLAIM && role == TT_ROLE_SCHEDULER) {
        on_claim(self, now, from, frame->epoch);
    } else if (frame->type == TT_FRAME_SERVE && from_primary) {
        on_serve(self, from, frame);
    } else if (frame->type == TT_FRAME_WISHED && from_primary) {
        if (self->wished)
            self->wished(self->context, frame->records[0].id, frame->records[0].code);
    } else if ((frame->type == TT_FRAME_RETURN || frame->type == TT_FRAME_DROP) &&
               role == TT_ROLE_SCHEDULER) {
        for (int32_t i = 0; from_primary && i < frame->count; i++)
            frame->type == TT_FRAME_DROP ? on_drop(self, &frame->records[i])
                                         : on_return(self, now, &frame->records[i]);
    } else if (frame->type == TT_FRAME_FETCH && role == TT_ROLE_BACKEND) {
        for (int32_t i = 0; i < frame->count; i++)
            on_fetch(self, from, &frame->records[i]);
    } else if (frame->type == TT_FRAME_WORDS && role == TT_ROLE_BACKEND) {
        for (int32_t i = 0; i < frame->count; i++)
            on_words(self, from, &frame->records[i]);
    } else if (frame->type == TT_FRAME_RESULT && role == TT_ROLE_BACKEND) {
        for (int32_t i = 0; i < frame->count; i++)
            on_result(self, from, &frame->records[i]);
    } else if (role != TT_ROLE_SCHEDULER ||
               !tt_allegiance_answer(&self->primary, now, from, frame, &self->outbox)) {
        self->rejected++;
    }
}

void tt_frontend_link(struct tt_frontend *self, int64_t now, uint16_t peer, enum tt_link link) {
    bool is_up = link == TT_LINK_UP;
    if (peer == tt_epoch_scheduler(self->primary.epoch) && self->linked && !is_up) {
        self->linked = false;
        self->alone_since = now;
        forget_tickets(self);
    }
    if (self->settings->nodes[peer].role != TT_ROLE_BACKEND)
        return;
    for (int32_t i = 0; i < self->settings->request_limit; i++) {
        struct tt_frontend_request *request = &self->requests[i];
        if (is_up && request->dead_backend == peer) /* a new life, which may end, too */
            request->dead_backend = TT_CLUSTER_NO_NODE;
        if (!is_up && request->id != 0 && request->backend == peer)
            lost_backend(self, now, request, peer, link == TT_LINK_CLOSED);
    }
}

void tt_frontend_tick(struct tt_frontend *self, int64_t now) {
    for (const struct tt_heap_entry *top; (top = tt_heap_top(&self->due)) && top->key <= now;) {
        struct tt_frontend_request *request = &self->requests[top->id];
        recall(self, request);
        end(self, request, TT_ANSWER_TIMED_OUT, 0);
    }
}

int64_t tt_frontend_next_at(const struct tt_frontend *self) { return tt_heap_next_key(&self->due); }

void tt_frontend_check(const struct tt_frontend *self) {
    int32_t live = 0;
    tt_model_duty_check(&self->models);
    for (int32_t i = 0; i < self->settings->request_limit; i++) {
        const struct tt_frontend_request *request = &self->requests[i];
        if (request->id == 0)
            continue;
        live++;
        tt_assert(tt_frontend_index(request->id) == i);
        tt_assert(!request->ticketed || self->linked);
        tt_assert(request->ticketed || !self->linked || request->backend != TT_CLUSTER_NO_NODE);
        tt_assert(request->words == 0 || request->backend != TT_CLUSTER_NO_NODE);
        tt_assert(request->words == 0 || request->streams);
        tt_assert(tt_heap_contains(&self->due, i) == (request->deadline_at != TT_NEVER));
    }
    tt_assert(live == self->live);
    tt_assert(self->accepted == self->ended + live);
}
