#include "cluster/backend.h"

#include "base/instant.h"

#include <stdlib.h>

enum { ACCEPT_PART = 4 };

enum tt_err tt_backend_init(struct tt_backend *self, const struct tt_cluster_settings *settings,
                            uint16_t number) {
    tt_assert(settings->nodes[number].role == TT_ROLE_BACKEND && settings->depth > 0);
    *self = (struct tt_backend){
        .settings = settings, .number = number, .device_count = settings->nodes[number].devices};
    self->max_batch = tt_cluster_max_rows(settings);
    size_t plans = (size_t)self->device_count * (size_t)settings->depth;
    self->devices = calloc((size_t)self->device_count, sizeof(*self->devices));
    self->plans = calloc(plans, sizeof(*self->plans));
    self->members = calloc(plans * (size_t)self->max_batch, sizeof(*self->members));
    if (!self->devices || !self->plans || !self->members ||
        tt_model_duty_init(&self->models, settings->model_count,
                           tt_cluster_model_capacity(settings), &self->outbox)) {
        tt_backend_fini(self);
        return TT_ERR_NO_MEMORY;
    }
    for (int32_t i = 0; i < self->device_count; i++)
        self->devices[i].plans = &self->plans[(size_t)i * (size_t)settings->depth];
    for (size_t i = 0; i < plans; i++)
        self->plans[i].members = &self->members[i * (size_t)self->max_batch];
    return TT_OK;
}

void tt_backend_fini(struct tt_backend *self) {
    tt_model_duty_fini(&self->models);
    tt_outbox_fini(&self->outbox);
    free(self->devices);
    free(self->plans);
    free(self->members);
    self->devices = NULL;
    self->plans = NULL;
    self->members = NULL;
}

static struct tt_plan *plan_at(const struct tt_backend *self,
                               const struct tt_backend_device *device, int32_t place) {
    return &device->plans[(device->oldest + place) % self->settings->depth];
}

/* ---- running ---- */

/* S4: the time since the inputs were here, so that the scheduler finds the delay of its messages
 * without a look at this node's clock. */
static void report_done(struct tt_backend *self, int64_t now, int32_t number,
                        const struct tt_plan *plan, bool is_computed) {
    if (self->primary.epoch == 0)
        return;
    tt_outbox_add(
        &self->outbox, tt_epoch_scheduler(self->primary.epoch), TT_FRAME_DONE, self->primary.epoch,
        &(struct tt_frame_record){.id = plan->number,
                                  .duration_ns = plan->ready_at < 0 ? 0 : 1 + now - plan->ready_at,
                                  .device = (uint16_t)number,
                                  .rows = (uint16_t)self->devices[number].count,
                                  .code = is_computed});
}

static void send_result(struct tt_backend *self, const struct tt_plan *plan,
                        const struct tt_plan_member *member, bool is_computed) {
    tt_outbox_add(&self->outbox, member->frontend, TT_FRAME_RESULT, plan->epoch,
                  &(struct tt_frame_record){.id = member->id,
                                            .attempt = member->attempt,
                                            .code = is_computed && !member->is_withdrawn});
}

void tt_backend_answer(struct tt_backend *self, const struct tt_plan *plan,
                       struct tt_plan_member *member, bool is_computed) {
    tt_assert(plan->state == TT_PLAN_RUNNING && member->is_here && !member->is_answered);
    member->is_answered = true;
    send_result(self, plan, member, is_computed);
}

void tt_backend_emitted(struct tt_backend *self, const struct tt_plan *plan,
                        struct tt_plan_member *member, int32_t count) {
    tt_assert(plan->state == TT_PLAN_RUNNING && member->is_here && !member->is_answered);
    tt_assert(count >= 1 && count <= UINT16_MAX);
    tt_outbox_add(&self->outbox, member->frontend, TT_FRAME_WORDS, plan->epoch,
                  &(struct tt_frame_record){.id = member->id,
                                            .duration_ns = member->words,
                                            .rows = (uint16_t)count,
                                            .attempt = member->attempt});
    member->words += count;
}

/* The oldest plan of the device is over. */
static void retire(struct tt_backend *self, int64_t now, int32_t number, bool is_computed) {
    struct tt_backend_device *device = &self->devices[number];
    struct tt_plan *plan = plan_at(self, device, 0);
    for (int32_t i = 0; i < plan->count; i++) {
        struct tt_plan_member *member = &plan->members[i];
        if (member->is_here && !member->is_answered)
            send_result(self, plan, member, is_computed);
    }
    plan->state = TT_PLAN_FREE;
    device->oldest = (device->oldest + 1) % self->settings->depth;
    device->count--;
    report_done(self, now, number, plan, is_computed);
}

/* Nothing more comes for the member. */
static void end_wait(struct tt_plan *plan, int64_t now, struct tt_plan_member *member) {
    tt_assert(member->awaited && plan->awaited > 0);
    member->awaited = member->is_reading = false;
    plan->awaited--;
    if (plan->awaited > 0)
        return;
    plan->state = TT_PLAN_READY;
    if (plan->ready_at != -1)
        plan->ready_at = now;
}

/* Leaves out a member whose input does not come. The scheduler tells its frontend. */
static void leave_out(struct tt_backend *self, int64_t now, struct tt_plan *plan,
                      struct tt_plan_member *member) {
    plan->ready_at = -1;
    end_wait(plan, now, member);
    if (self->primary.epoch != 0)
        tt_outbox_add(&self->outbox, tt_epoch_scheduler(self->primary.epoch), TT_FRAME_MISSING,
                      self->primary.epoch,
                      &(struct tt_frame_record){
                          .id = member->id, .node = member->frontend, .attempt = member->attempt});
}

static void give_up_inputs(struct tt_backend *self, int64_t now, struct tt_plan *plan) {
    for (int32_t i = 0; i < plan->count; i++)
        if (plan->members[i].awaited)
            leave_out(self, now, plan, &plan->members[i]);
}

static int32_t members_here(const struct tt_plan *plan) {
    int32_t here = 0;
    for (int32_t i = 0; i < plan->count; i++)
        here += plan->members[i].is_here;
    return here;
}

/* Starts what can start on the device. */
static void advance(struct tt_backend *self, int64_t now, int32_t number) {
    struct tt_backend_device *device = &self->devices[number];
    while (device->count > 0) {
        struct tt_plan *plan = plan_at(self, device, 0);
        if (plan->state == TT_PLAN_COLLECTING && now >= plan->fetched_by)
            give_up_inputs(self, now, plan);
        if (plan->state != TT_PLAN_READY)
            return;
        if (members_here(plan) > 0) {
            plan->state = TT_PLAN_RUNNING;
            self->run(self->context, now, number, plan);
            return;
        }
        retire(self, now, number, true); /* no request of it is left */
    }
}

void tt_backend_ran(struct tt_backend *self, int64_t now, int32_t device, bool is_computed) {
    tt_assert(device >= 0 && device < self->device_count && self->devices[device].count > 0);
    tt_assert(plan_at(self, &self->devices[device], 0)->state == TT_PLAN_RUNNING);
    retire(self, now, device, is_computed);
    advance(self, now, device);
}

/* ---- grants ---- */

/* True if the frame is a batch that this backend can run. Nothing of it is trusted. */
static bool makes_sense(const struct tt_backend *self, const struct tt_frame *frame) {
    const struct tt_frame_record *head = &frame->records[0];
    if (head->device >= self->device_count || head->model >= self->settings->model_count)
        return false;
    int32_t rows = 0;
    for (int32_t i = 1; i < frame->count; i++) {
        const struct tt_frame_record *record = &frame->records[i];
        if (record->node >= self->settings->node_count ||
            self->settings->nodes[record->node].role != TT_ROLE_FRONTEND || record->rows < 1)
            return false;
        rows += record->rows;
    }
    return rows <= self->settings->models[head->model]->max_batch;
}

static void add_fetch(struct tt_backend *self, const struct tt_plan *plan,
                      const struct tt_plan_member *member) {
    uint16_t code = member->is_here || member->is_reading;
    tt_outbox_add(
        &self->outbox, member->frontend, TT_FRAME_FETCH, plan->epoch,
        &(struct tt_frame_record){.id = member->id, .attempt = member->attempt, .code = code});
}

/* S7: the backend fetches the inputs of what it was granted. Each frontend hears which requests
 * were granted, also where nothing is to be sent. */
static void fetch(struct tt_backend *self, int64_t now, struct tt_plan *plan) {
    if (self->read_inputs)
        self->read_inputs(self->context, plan);
    plan->awaited = 0;
    for (int32_t i = 0; i < plan->count; i++) {
        struct tt_plan_member *member = &plan->members[i];
        member->awaited = !member->is_here;
        plan->awaited += member->awaited;
        add_fetch(self, plan, member);
    }
    plan->state = plan->awaited > 0 ? TT_PLAN_COLLECTING : TT_PLAN_READY;
    plan->ready_at = now; /* or later */
}

static void accept(struct tt_backend *self, int64_t now, const struct tt_frame *frame) {
    const struct tt_frame_record *head = &frame->records[0];
    struct tt_backend_device *device = &self->devices[head->device];
    struct tt_plan *plan = plan_at(self, device, device->count);
    tt_assert(plan->state == TT_PLAN_FREE);
    device->count++;
    device->last_epoch = frame->epoch;
    device->last_number = head->id;
    self->accepted++;
    plan->number = head->id;
    plan->epoch = frame->epoch;
    plan->model = head->model;
    plan->fetched_by =
        tt_instant_add(tt_instant_add(now, head->duration_ns), self->settings->fetch_ns);
    plan->count = frame->count - 1;
    for (int32_t i = 1; i < frame->count; i++) {
        const struct tt_frame_record *record = &frame->records[i];
        int64_t left = record->duration_ns > 0 ? record->duration_ns : TT_NEVER;
        plan->members[i - 1] = (struct tt_plan_member){.id = record->id,
                                                       .deadline_at = tt_instant_add(now, left),
                                                       .length = (int32_t)record->length,
                                                       .frontend = record->node,
                                                       .attempt = record->attempt,
                                                       .rows = record->rows};
    }
    plan->accept_at = tt_instant_add(now, self->settings->overdue_ns / ACCEPT_PART);
    fetch(self, now, plan);
}

/* Reports the plans of the device that take a while. */
static void report_accepted(struct tt_backend *self, int64_t now, int32_t number) {
    const struct tt_backend_device *device = &self->devices[number];
    for (int32_t p = 0; p < device->count; p++) {
        struct tt_plan *plan = plan_at(self, device, p);
        if (now < plan->accept_at)
            continue;
        plan->accept_at = TT_NEVER;
        if (plan->epoch == self->primary.epoch) /* else its scheduler has gone */
            tt_outbox_add(
                &self->outbox, tt_epoch_scheduler(plan->epoch), TT_FRAME_ACCEPTED, plan->epoch,
                &(struct tt_frame_record){.id = plan->number, .device = (uint16_t)number});
    }
}

static void on_grant(struct tt_backend *self, int64_t now, uint16_t from,
                     const struct tt_frame *frame) {
    if (frame->epoch != self->primary.epoch || from != tt_epoch_scheduler(frame->epoch)) {
        self->refused++;
        tt_outbox_signal(&self->outbox, from, TT_FRAME_STALE, self->primary.epoch);
        return;
    }
    if (!makes_sense(self, frame)) {
        self->rejected++;
        return;
    }
    const struct tt_frame_record *head = &frame->records[0];
    struct tt_backend_device *device = &self->devices[head->device];
    bool is_repeated = device->last_epoch == frame->epoch && head->id <= device->last_number;
    if (is_repeated || device->count == self->settings->depth) {
        self->rejected++;
        return;
    }
    accept(self, now, frame);
    advance(self, now, head->device);
}

/* The member of the plan that waits for this input; NULL: none does. */
static struct tt_plan_member *awaited_in(const struct tt_plan *plan, uint16_t from, uint64_t id,
                                         uint16_t attempt) {
    for (int32_t i = 0; plan->state == TT_PLAN_COLLECTING && i < plan->count; i++) {
        struct tt_plan_member *member = &plan->members[i];
        if (member->awaited && member->id == id && member->frontend == from &&
            member->attempt == attempt)
            return member;
    }
    return NULL;
}

static void settle_input(struct tt_plan *plan, int64_t now, uint16_t from,
                         const struct tt_frame_record *record) {
    struct tt_plan_member *member = awaited_in(plan, from, record->id, record->attempt);
    if (!member)
        return;
    end_wait(plan, now, member);
    member->is_here = record->code == 1;
}

struct tt_plan_member *tt_backend_awaited(struct tt_backend *self, uint16_t from, uint64_t id,
                                          uint16_t attempt, uint16_t *out_model) {
    for (int32_t d = 0; d < self->device_count; d++) {
        const struct tt_backend_device *device = &self->devices[d];
        for (int32_t p = 0; p < device->count; p++) {
            const struct tt_plan *plan = plan_at(self, device, p);
            struct tt_plan_member *member = awaited_in(plan, from, id, attempt);
            if (!member)
                continue;
            *out_model = plan->model;
            return member;
        }
    }
    return NULL;
}

static void on_input(struct tt_backend *self, int64_t now, uint16_t from,
                     const struct tt_frame *frame) {
    for (int32_t d = 0; d < self->device_count; d++) {
        struct tt_backend_device *device = &self->devices[d];
        for (int32_t p = 0; p < device->count; p++) {
            struct tt_plan *plan = plan_at(self, device, p);
            for (int32_t i = 0; plan->state == TT_PLAN_COLLECTING && i < frame->count; i++)
                settle_input(plan, now, from, &frame->records[i]);
        }
        advance(self, now, d);
    }
}

static void settle_read(struct tt_backend *self, int64_t now, struct tt_plan *plan,
                        struct tt_plan_member *member, bool is_here) {
    if (is_here) {
        end_wait(plan, now, member);
        member->is_here = true;
    } else {
        member->is_reading = false;
        add_fetch(self, plan, member);
    }
}

void tt_backend_read(struct tt_backend *self, int64_t now, uint16_t from, uint64_t id,
                     uint16_t attempt, bool is_here) {
    for (int32_t d = 0; d < self->device_count; d++) {
        struct tt_backend_device *device = &self->devices[d];
        for (int32_t p = 0; p < device->count; p++) {
            struct tt_plan *plan = plan_at(self, device, p);
            struct tt_plan_member *member = awaited_in(plan, from, id, attempt);
            if (member && member->is_reading)
                settle_read(self, now, plan, member, is_here);
        }
        advance(self, now, d);
    }
}

/* ---- clients that go ---- */

static void withdraw_member(struct tt_backend *self, int64_t now, struct tt_plan *plan,
                            struct tt_plan_member *member) {
    bool was_here = member->is_here;
    if (member->is_answered || member->is_withdrawn)
        return;
    if (member->awaited)
        end_wait(plan, now, member);
    if (plan->state != TT_PLAN_RUNNING)
        member->is_here = false;
    else /* what comes of it may be an error that says so: no answer to another attempt */
        member->is_withdrawn = true;
    if (was_here && self->withdrawn)
        self->withdrawn(self->context, plan, member);
}

/* The frontend may have sent newer tickets of the request since this backend fetched it. */
static void on_cancel(struct tt_backend *self, int64_t now, uint16_t from,
                      const struct tt_frame_record *record) {
    for (int32_t d = 0; d < self->device_count; d++) {
        struct tt_backend_device *device = &self->devices[d];
        for (int32_t p = 0; p < device->count; p++) {
            struct tt_plan *plan = plan_at(self, device, p);
            for (int32_t i = 0; i < plan->count; i++) {
                struct tt_plan_member *member = &plan->members[i];
                if (member->id == record->id && member->frontend == from &&
                    member->attempt <= record->attempt)
                    withdraw_member(self, now, plan, member);
            }
        }
        advance(self, now, d);
    }
}

/* ---- what the driver reports ---- */

static void on_claim(struct tt_backend *self, int64_t now, uint16_t from, uint64_t epoch) {
    if (!tt_allegiance_claim(&self->primary, now, from, epoch, &self->outbox))
        return;
    for (int32_t i = 0; i < self->device_count; i++)
        tt_outbox_add(&self->outbox, from, TT_FRAME_STATE, epoch,
                      &(struct tt_frame_record){.device = (uint16_t)i,
                                                .rows = (uint16_t)self->devices[i].count});
    if (self->is_leaving)
        tt_outbox_signal(&self->outbox, from, TT_FRAME_LEAVE, epoch);
}

void tt_backend_leave(struct tt_backend *self) {
    self->is_leaving = true;
    if (self->primary.epoch != 0)
        tt_outbox_signal(&self->outbox, tt_epoch_scheduler(self->primary.epoch), TT_FRAME_LEAVE,
                         self->primary.epoch);
}

bool tt_backend_is_idle(const struct tt_backend *self) {
    int32_t plans = 0;
    for (int32_t i = 0; i < self->device_count; i++)
        plans += self->devices[i].count;
    return plans == 0;
}

void tt_backend_receive(struct tt_backend *self, int64_t now, uint16_t from,
                        const struct tt_frame *frame) {
    enum tt_cluster_role role = self->settings->nodes[from].role;
    tt_allegiance_hear(&self->primary, now, from, frame->epoch);
    if (frame->type == TT_FRAME_INPUT && role == TT_ROLE_FRONTEND)
        on_input(self, now, from, frame);
    else if (frame->type == TT_FRAME_CANCEL && role == TT_ROLE_FRONTEND)
        for (int32_t i = 0; i < frame->count; i++)
            on_cancel(self, now, from, &frame->records[i]);
    else if (frame->type == TT_FRAME_CLAIM && role == TT_ROLE_SCHEDULER)
        on_claim(self, now, from, frame->epoch);
    else if (frame->type == TT_FRAME_SERVE && frame->epoch == self->primary.epoch &&
             from == tt_epoch_scheduler(frame->epoch))
        self->rejected += !tt_model_duty_receive(&self->models, from, frame);
    else if (frame->type == TT_FRAME_GRANT && role == TT_ROLE_SCHEDULER)
        on_grant(self, now, from, frame);
    else if (role != TT_ROLE_SCHEDULER ||
             !tt_allegiance_answer(&self->primary, now, from, frame, &self->outbox))
        self->rejected++;
}

/* What runs for a frontend that has ended, or that does not get all words any more, is of no use.
 */
static void stop_in_vain(struct tt_backend *self, int64_t now, struct tt_plan *plan,
                         uint16_t frontend, bool has_ended) {
    for (int32_t i = 0; i < plan->count; i++) {
        struct tt_plan_member *member = &plan->members[i];
        if (member->frontend == frontend && (has_ended || member->words > 0))
            withdraw_member(self, now, plan, member);
    }
}

/* A frontend that is gone sends no more inputs: its members are left out. */
void tt_backend_link(struct tt_backend *self, int64_t now, uint16_t peer, enum tt_link link) {
    if (link == TT_LINK_UP || self->settings->nodes[peer].role != TT_ROLE_FRONTEND)
        return;
    for (int32_t d = 0; d < self->device_count; d++) {
        struct tt_backend_device *device = &self->devices[d];
        for (int32_t p = 0; p < device->count; p++) {
            struct tt_plan *plan = plan_at(self, device, p);
            if (plan->state == TT_PLAN_RUNNING)
                stop_in_vain(self, now, plan, peer, link == TT_LINK_CLOSED);
            if (plan->state != TT_PLAN_COLLECTING)
                continue;
            for (int32_t i = 0; i < plan->count; i++)
                if (plan->members[i].awaited && plan->members[i].frontend == peer)
                    leave_out(self, now, plan, &plan->members[i]);
        }
        advance(self, now, d);
    }
}

void tt_backend_tick(struct tt_backend *self, int64_t now) {
    for (int32_t d = 0; d < self->device_count; d++) {
        advance(self, now, d);
        report_accepted(self, now, d);
    }
}

int64_t tt_backend_next_at(const struct tt_backend *self) {
    int64_t next_at = TT_NEVER;
    for (int32_t d = 0; d < self->device_count; d++) {
        const struct tt_backend_device *device = &self->devices[d];
        if (device->count == 0)
            continue;
        const struct tt_plan *plan = plan_at(self, device, 0);
        if (plan->state == TT_PLAN_COLLECTING)
            next_at = tt_instant_min(next_at, plan->fetched_by);
        for (int32_t p = 0; p < device->count; p++)
            next_at = tt_instant_min(next_at, plan_at(self, device, p)->accept_at);
    }
    return next_at;
}

void tt_backend_check(const struct tt_backend *self) {
    tt_model_duty_check(&self->models);
    for (int32_t d = 0; d < self->device_count; d++) {
        const struct tt_backend_device *device = &self->devices[d];
        tt_assert(device->count >= 0 && device->count <= self->settings->depth);
        tt_assert(device->last_epoch <= self->primary.epoch);
        for (int32_t p = 0; p < self->settings->depth; p++) {
            const struct tt_plan *plan = plan_at(self, device, p);
            tt_assert((plan->state == TT_PLAN_FREE) == (p >= device->count));
            if (plan->state == TT_PLAN_FREE)
                continue;
            tt_assert(p == 0 || plan->state != TT_PLAN_RUNNING); /* one at a time */
            tt_assert(p > 0 || plan->state != TT_PLAN_READY);    /* it would run */
            tt_assert(plan->epoch <= self->primary.epoch);
            int32_t awaited = 0;
            for (int32_t i = 0; i < plan->count; i++) {
                awaited += plan->members[i].awaited;
                tt_assert(!plan->members[i].awaited || !plan->members[i].is_here);
                tt_assert(!plan->members[i].is_reading || plan->members[i].awaited);
                bool has_run = plan->members[i].is_answered || plan->members[i].words > 0;
                tt_assert(!has_run || plan->state == TT_PLAN_RUNNING);
            }
            tt_assert(awaited == plan->awaited);
            tt_assert((plan->state == TT_PLAN_COLLECTING) == (awaited > 0));
        }
    }
}
