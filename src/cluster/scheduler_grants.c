/* Tickets become requests of the mechanism, its tasks become grants. */
#include "base/instant.h"
#include "cluster/scheduler_role.h"

enum { MOST_DOUBLINGS = 8 }; /* of the time after which a grant is overdue */

/* ---- what the mechanism decides ---- */

static struct tt_grant *grant_at(const struct tt_scheduler_role *self,
                                 const struct tt_granted_device *device, int32_t place) {
    return &device->grants[(device->oldest + place) % self->settings->depth];
}

/* Called when the grants of the device have changed. */
static void set_due(struct tt_scheduler_role *self, const struct tt_granted_device *device) {
    int64_t due = TT_NEVER;
    for (int32_t i = 0; i < device->count; i++) {
        const struct tt_grant *grant = grant_at(self, device, i);
        due = tt_instant_min(due, grant->is_accepted ? grant->ended_by : grant->accepted_by);
    }
    int32_t number = (int32_t)(device - self->devices);
    if (device->count > 0)
        tt_heap_set(&self->due, number, due, number);
    else
        tt_heap_remove(&self->due, number);
}

static void add_member(struct tt_scheduler_role *self, int64_t now,
                       const struct tt_granted_device *device, const struct tt_request *request) {
    int64_t left = TT_NEVER;
    if (request->deadline_at != TT_NEVER)
        left = tt_instant_max(request->deadline_at - now, 1);
    const struct tt_ticket_origin *origin = &device->pool->origins[request->handle.index];
    tt_outbox_add(&self->outbox, device->backend, TT_FRAME_GRANT, self->primary.epoch,
                  &(struct tt_frame_record){.id = origin->id,
                                            .duration_ns = left,
                                            .length = (uint32_t)request->length,
                                            .node = origin->frontend,
                                            .rows = (uint16_t)request->rows,
                                            .attempt = origin->attempt});
}

/* S4: what a batch's messages are believed to take, and at least what was given. */
static int64_t travel_of(const struct tt_scheduler_role *self,
                         const struct tt_granted_device *device, const struct tt_task *task) {
    const struct tt_network_delay given = {self->settings->control_ns, self->settings->data_ns};
    struct tt_network_delay believed =
        tt_mechanism_delay(&device->pool->mechanism, device->executor, given);
    return tt_instant_max(tt_network_delay_of(given, task->rows),
                          tt_network_delay_of(believed, task->rows));
}

/* When the device should have reported the end of a task that starts no earlier than `start_at`. */
static int64_t overdue_at(const struct tt_scheduler_role *self,
                          const struct tt_granted_device *device, const struct tt_task *task,
                          int64_t start_at) {
    const struct tt_profile *planned = self->settings->models[task->model]->whole;
    const struct tt_profile *believed = device->pool->mechanism.models[task->model]->whole;
    int64_t run = tt_instant_max(tt_profile_tail(planned, task->rows, task->length),
                                 tt_profile_tail(believed, task->rows, task->length));
    int32_t pace = *tt_scheduler_pace_at(self, device->backend, task->model);
    if (pace > 1000)
        run += run / 1000 * (pace - 1000);
    int64_t slack = tt_instant_max(self->settings->overdue_ns, run / 4);
    int32_t late = self->peers[device->backend].late;
    slack *= INT64_C(1) << (late < MOST_DOUBLINGS ? late : MOST_DOUBLINGS);
    return start_at + run + slack + travel_of(self, device, task);
}

/* Sends the grant, which starts no earlier than `start_at`. */
static void issue(struct tt_scheduler_role *self, int64_t now,
                  const struct tt_granted_device *device, struct tt_grant *grant,
                  int64_t start_at) {
    const struct tt_task *task = grant->task;
    grant->number = ++self->grant_count; /* ascending in the order of sending */
    grant->sent_at = now;
    int64_t travel = travel_of(self, device, task);
    grant->accepted_by = now + travel + self->settings->overdue_ns;
    grant->ended_by = overdue_at(self, device, task, start_at);
    self->granted++;
    tt_outbox_begin(
        &self->outbox, device->backend, TT_FRAME_GRANT, self->primary.epoch,
        &(struct tt_frame_record){.id = grant->number,
                                  .duration_ns = tt_instant_max(task->start_at - now - travel, 0),
                                  .model = (uint16_t)task->model,
                                  .device = device->device});
    for (int32_t i = 0; i < task->count; i++)
        add_member(self, now, device, task->items[i].request);
}

/* The latest start of the task in this place of the device, if the one before is in time. */
static int64_t start_after(const struct tt_scheduler_role *self, int64_t now,
                           const struct tt_granted_device *device, int32_t place,
                           const struct tt_task *task) {
    int64_t start_at = tt_instant_max(now, task->start_at);
    return place > 0 ? tt_instant_max(start_at, grant_at(self, device, place - 1)->ended_by)
                     : start_at;
}

static void on_start(void *context, int64_t now, struct tt_task *task) {
    const struct tt_scheduler_pool *pool = context;
    struct tt_scheduler_role *self = pool->role;
    bool is_parked;
    struct tt_granted_device *device = tt_scheduler_holders_choose(
        self, &self->devices[pool->devices[task->executor]], task->model, &is_parked);
    tt_assert(device->count < self->settings->depth && device->is_usable);
    int64_t start_at = start_after(self, now, device, device->count, task);
    struct tt_grant *grant = grant_at(self, device, device->count);
    *grant = (struct tt_grant){
        .task = task, .accepted_by = TT_NEVER, .ended_by = TT_NEVER, .is_parked = is_parked};
    device->count++;
    self->parked += is_parked;
    if (!is_parked)
        issue(self, now, device, grant, start_at);
    set_due(self, device);
}

static struct tt_ticket_entry *entry_of(struct tt_scheduler_role *self, uint16_t frontend,
                                        uint64_t id) {
    int32_t index = (int32_t)(id & 0xffff);
    if (!self->entries[frontend] || index >= self->settings->request_limit || id == 0)
        return NULL;
    return &self->entries[frontend][index];
}

static void on_ended(void *context, int64_t now, struct tt_request *request, enum tt_ending ending,
                     enum tt_drop_reason reason) {
    struct tt_scheduler_pool *pool = context;
    struct tt_scheduler_role *self = pool->role;
    const struct tt_ticket_origin *origin = &pool->origins[request->handle.index];
    struct tt_ticket_entry *entry = entry_of(self, origin->frontend, origin->id);
    tt_assert(entry != NULL);
    if (entry->pool == pool->number && entry->handle.index == request->handle.index &&
        entry->handle.generation == request->handle.generation)
        entry->id = 0;
    if (ending == TT_ENDING_DONE && now > request->deadline_at)
        pool->late += request->rows;
    if (ending != TT_ENDING_DROPPED || self->is_closing)
        return;
    if (reason == TT_DROP_DEADLINE || reason == TT_DROP_EARLY)
        pool->dropped += request->rows;
    tt_outbox_add(&self->outbox, origin->frontend, TT_FRAME_DROP, self->primary.epoch,
                  &(struct tt_frame_record){
                      .id = origin->id, .attempt = origin->attempt, .code = (uint16_t)reason});
}

/* Policies of whole graphs stop no tasks. */
static void on_stop(void *context, int64_t now, int32_t executor) {
    (void)context;
    (void)now;
    (void)executor;
    tt_assert(false);
}

struct tt_carrier tt_scheduler_grants_carrier(struct tt_scheduler_pool *pool) {
    return (struct tt_carrier){
        .context = pool, .start = on_start, .yield = on_stop, .abort = on_stop, .ended = on_ended};
}

/* ---- tickets ---- */

static void cancel(struct tt_scheduler_role *self, int64_t now, struct tt_ticket_entry *entry) {
    struct tt_scheduler_pool *pool = &self->pools[entry->pool];
    struct tt_request *request = tt_request_pool_find(&pool->mechanism.requests, entry->handle);
    tt_assert(request != NULL);
    entry->id = 0;
    tt_mechanism_cancelled(&pool->mechanism, now, request);
    pool->wants_decision = true;
}

static void drop(struct tt_scheduler_role *self, uint16_t frontend,
                 const struct tt_frame_record *record, uint16_t reason) {
    tt_outbox_add(
        &self->outbox, frontend, TT_FRAME_DROP, self->primary.epoch,
        &(struct tt_frame_record){.id = record->id, .attempt = record->attempt, .code = reason});
}

/* The request goes to the pool that has its model. False: there is no room. */
static bool queue(struct tt_scheduler_role *self, int64_t now, const struct tt_arrival *arrival,
                  const struct tt_ticket_origin *origin, struct tt_ticket_entry *entry) {
    struct tt_scheduler_pool *pool = &self->pools[self->routes[arrival->model]];
    struct tt_request *request = NULL;
    if (tt_mechanism_arrived(&pool->mechanism, now, arrival, &request))
        return false;
    tt_assert((int32_t)request->handle.index < self->origin_count);
    pool->origins[request->handle.index] = *origin;
    *entry = (struct tt_ticket_entry){.id = origin->id,
                                      .handle = request->handle,
                                      .attempt = origin->attempt,
                                      .pool = pool->number};
    pool->wants_decision = true;
    return true;
}

void tt_scheduler_grants_ticket(struct tt_scheduler_role *self, int64_t now, uint16_t from,
                                const struct tt_frame_record *record) {
    struct tt_ticket_entry *entry = entry_of(self, from, record->id);
    if (!entry || record->model >= self->settings->model_count || record->rows < 1 ||
        record->rows > self->settings->models[record->model]->max_batch ||
        record->length > INT32_MAX) {
        self->rejected++;
        return;
    }
    if (entry->id == record->id && entry->attempt >= record->attempt)
        return; /* an older attempt, or this one again */
    if (entry->id != 0)
        cancel(self, now, entry);
    if (!tt_model_set_admits(&self->models, tt_cluster_group(self->settings, record->model))) {
        drop(self, from, record, TT_DROP_WITHDRAWN);
        return;
    }
    if (self->models.absent[record->model]) {
        drop(self, from, record, TT_CLUSTER_DROP_NO_BACKEND);
        return;
    }
    struct tt_arrival arrival = {.model = record->model,
                                 .rows = record->rows,
                                 .length = (int32_t)record->length,
                                 .priority = record->code,
                                 .deadline_at = tt_instant_add(now, record->duration_ns)};
    const struct tt_ticket_origin origin = {
        .id = record->id, .frontend = from, .attempt = record->attempt};
    struct tt_scheduler_pool *pool = &self->pools[self->routes[record->model]];
    self->tickets[record->model] += record->rows;
    pool->came += record->rows;
    if (!queue(self, now, &arrival, &origin, entry)) {
        pool->dropped += record->rows;
        drop(self, from, record, TT_DROP_QUEUE_FULL);
    }
}

void tt_scheduler_grants_move(struct tt_scheduler_role *self, int64_t now,
                              struct tt_request *request) {
    uint16_t pool = self->models.placement.others[request->model];
    const struct tt_ticket_origin origin = self->pools[pool].origins[request->handle.index];
    struct tt_ticket_entry *entry = entry_of(self, origin.frontend, origin.id);
    tt_assert(entry != NULL && entry->id == origin.id && entry->pool == pool);
    const struct tt_arrival arrival = {.model = request->model,
                                       .rows = request->rows,
                                       .length = request->length,
                                       .priority = request->priority,
                                       .deadline_at = request->deadline_at};
    cancel(self, now, entry);
    if (!queue(self, now, &arrival, &origin, entry))
        drop(self, origin.frontend,
             &(struct tt_frame_record){.id = origin.id, .attempt = origin.attempt},
             TT_DROP_QUEUE_FULL);
}

void tt_scheduler_grants_cancel(struct tt_scheduler_role *self, int64_t now, uint16_t from,
                                const struct tt_frame_record *record) {
    struct tt_ticket_entry *entry = entry_of(self, from, record->id);
    if (!entry || entry->id != record->id || entry->attempt != record->attempt)
        return; /* it has left */
    cancel(self, now, entry);
}

void tt_scheduler_grants_forget(struct tt_scheduler_role *self, int64_t now, uint16_t frontend) {
    for (int32_t i = 0; i < self->settings->request_limit; i++)
        if (self->entries[frontend][i].id != 0)
            cancel(self, now, &self->entries[frontend][i]);
}

static void drop_absent(struct tt_scheduler_role *self, int64_t now, uint16_t frontend,
                        struct tt_ticket_entry *entry) {
    const struct tt_mechanism *mechanism = &self->pools[entry->pool].mechanism;
    const struct tt_request *request = tt_request_pool_find(&mechanism->requests, entry->handle);
    tt_assert(request != NULL);
    if (!self->models.absent[request->model] || request->state != TT_REQUEST_QUEUED)
        return;
    const struct tt_frame_record record = {.id = entry->id, .attempt = entry->attempt};
    cancel(self, now, entry);
    drop(self, frontend, &record, TT_CLUSTER_DROP_NO_BACKEND);
}

void tt_scheduler_grants_drop_absent(struct tt_scheduler_role *self, int64_t now) {
    for (uint16_t node = 0; node < self->settings->node_count; node++)
        for (int32_t i = 0; self->entries[node] && i < self->settings->request_limit; i++)
            if (self->entries[node][i].id != 0)
                drop_absent(self, now, node, &self->entries[node][i]);
}

/* ---- devices ---- */

static void set_usable(int64_t now, struct tt_granted_device *device) {
    if (device->is_usable)
        return;
    tt_assert(device->count == 0);
    device->is_usable = true;
    device->oldest = 0;
    /* Devices of a backend share the delay of its messages. */
    tt_mechanism_add_executor(&device->pool->mechanism, now, device->executor, device->backend);
    device->pool->wants_decision = true;
}

static void remove_device(int64_t now, struct tt_granted_device *device) {
    tt_assert(device->count == 0);
    tt_mechanism_remove_executor(&device->pool->mechanism, now, device->executor);
    device->is_usable = false;
}

/* It takes nothing new. */
static void drain_device(int64_t now, struct tt_granted_device *device) {
    struct tt_mechanism *mechanism = &device->pool->mechanism;
    if (mechanism->executors[device->executor].state == TT_EXECUTOR_UP)
        tt_mechanism_drain_executor(mechanism, now, device->executor);
    device->pool->wants_decision = true;
}

/* How long a batch took that ran for `ran_ns` on the backend, at the pace that is planned with. */
static int64_t took_of(const struct tt_scheduler_role *self, uint16_t backend, int32_t model,
                       int64_t ran_ns) {
    int32_t pace = *tt_scheduler_pace_at(self, backend, model);
    return pace > 0 ? (int64_t)((__int128)ran_ns * 1000 / pace) : ran_ns;
}

/* The oldest grant of the device is over. Its backend had it for `stay_ns` since all its inputs
 * were there; -1: that is not known. A stay that is longer than the round trip is no measurement.
 */
static void finish(struct tt_scheduler_role *self, int64_t now, struct tt_granted_device *device,
                   bool is_computed, int64_t stay_ns) {
    const struct tt_grant *grant = grant_at(self, device, 0);
    struct tt_task *task = grant->task;
    self->parked -= grant->is_parked;
    bool is_measured = is_computed && stay_ns >= 0 && stay_ns <= now - grant->sent_at;
    if (is_measured && grant->sent_at == task->dispatched_at)
        task->received_at = now - stay_ns;
    if (is_computed)
        self->peers[device->backend].late = 0;
    device->oldest = (device->oldest + 1) % self->settings->depth;
    device->count--;
    set_due(self, device);
    task->outcome = is_computed ? TT_OUTCOME_DONE : TT_OUTCOME_FAILED;
    task->last_step_done = is_computed ? task->last_step : task->first_step - 1;
    /* As far as this scheduler knows: its backend reports the end, and how long it had it. A batch
     * that waited there for another one began at that one's end. */
    if (is_measured)
        task->started_at = now - took_of(self, device->backend, task->model,
                                         tt_instant_min(stay_ns, now - device->idle_since_at));
    task->ended_at = device->idle_since_at = now;
    struct tt_mechanism *mechanism = &device->pool->mechanism;
    tt_mechanism_finished(mechanism, now, task);
    device->pool->wants_decision = true;
    bool is_draining = mechanism->executors[device->executor].state == TT_EXECUTOR_DRAINING;
    if (is_draining && device->count == 0)
        remove_device(now, device);
}

static void return_request(struct tt_scheduler_role *self, uint16_t backend, uint16_t frontend,
                           uint64_t id, uint16_t attempt, bool died) {
    self->returned++;
    tt_outbox_add(
        &self->outbox, frontend, TT_FRAME_RETURN, self->primary.epoch,
        &(struct tt_frame_record){.id = id, .node = backend, .attempt = attempt, .code = died});
}

static void return_members(struct tt_scheduler_role *self, const struct tt_granted_device *device,
                           const struct tt_grant *grant, bool died) {
    const struct tt_task *task = grant->task;
    for (int32_t i = 0; i < task->count; i++) {
        const struct tt_ticket_origin *origin =
            &device->pool->origins[task->items[i].request->handle.index];
        return_request(self, device->backend, origin->frontend, origin->id, origin->attempt,
                       died && !grant->is_parked);
    }
}

void tt_scheduler_grants_give_back(struct tt_scheduler_role *self, int64_t now,
                                   struct tt_granted_device *device) {
    tt_assert(device->count > 0 && grant_at(self, device, 0)->is_parked);
    return_members(self, device, grant_at(self, device, 0), false);
    finish(self, now, device, false, -1);
}

void tt_scheduler_grants_issue(struct tt_scheduler_role *self, int64_t now,
                               struct tt_granted_device *device, int32_t place) {
    struct tt_grant *grant = grant_at(self, device, place);
    tt_assert(place < device->count && grant->is_parked);
    grant->is_parked = false;
    self->parked--;
    issue(self, now, device, grant, start_after(self, now, device, place, grant->task));
    set_due(self, device);
}

void tt_scheduler_role_pace(struct tt_scheduler_role *self, uint16_t backend, int32_t model,
                            int32_t permille) {
    tt_assert(backend < self->settings->node_count && model < self->settings->model_count);
    *tt_scheduler_pace_at(self, backend, model) = permille;
}

void tt_scheduler_grants_settle(struct tt_scheduler_role *self,
                                const struct tt_granted_device *device) {
    set_due(self, device);
}

void tt_scheduler_grants_leave(struct tt_scheduler_role *self, int64_t now, uint16_t backend) {
    for (int32_t i = self->first_device[backend]; i < self->first_device[backend + 1]; i++) {
        struct tt_granted_device *device = &self->devices[i];
        if (!device->is_usable)
            continue;
        while (device->count > 0 && grant_at(self, device, 0)->is_parked)
            tt_scheduler_grants_give_back(self, now, device);
        drain_device(now, device);
        if (device->count == 0)
            remove_device(now, device);
    }
}

static struct tt_granted_device *device_of(struct tt_scheduler_role *self, uint16_t backend,
                                           const struct tt_frame_record *record) {
    int32_t executor = self->first_device[backend] + record->device;
    return executor < self->first_device[backend + 1] ? &self->devices[executor] : NULL;
}

void tt_scheduler_grants_accepted(struct tt_scheduler_role *self, uint16_t from,
                                  const struct tt_frame_record *record) {
    struct tt_granted_device *device = device_of(self, from, record);
    if (!device)
        return;
    for (int32_t i = 0; i < device->count; i++)
        if (grant_at(self, device, i)->number == record->id)
            grant_at(self, device, i)->is_accepted = true;
    set_due(self, device);
}

void tt_scheduler_grants_done(struct tt_scheduler_role *self, int64_t now, uint16_t from,
                              const struct tt_frame_record *record) {
    struct tt_granted_device *device = device_of(self, from, record);
    if (!device) {
        self->rejected++;
        return;
    }
    const struct tt_grant *oldest = device->count > 0 ? grant_at(self, device, 0) : NULL;
    if (device->is_usable && oldest && !oldest->is_parked && oldest->number == record->id)
        finish(self, now, device, record->code == 1, record->duration_ns - 1);
    if (!device->is_usable && record->rows == 0 && self->peers[from].state == TT_PEER_KNOWN)
        set_usable(now, device);
}

void tt_scheduler_grants_state(struct tt_scheduler_role *self, int64_t now, uint16_t from,
                               const struct tt_frame *frame) {
    for (int32_t i = 0; i < frame->count; i++) {
        struct tt_granted_device *device = device_of(self, from, &frame->records[i]);
        if (!device)
            self->rejected++;
        else if (frame->records[i].rows == 0)
            set_usable(now, device);
    }
}

void tt_scheduler_grants_missing(struct tt_scheduler_role *self, int64_t now, uint16_t from,
                                 const struct tt_frame_record *record) {
    if (record->node >= self->settings->node_count || !self->entries[record->node]) {
        self->rejected++;
        return;
    }
    self->peers[from].lost_frontend = record->node;
    self->peers[from].lost_at = now;
    return_request(self, from, record->node, record->id, record->attempt, false);
}

void tt_scheduler_grants_lose(struct tt_scheduler_role *self, int64_t now, uint16_t backend,
                              bool died) {
    for (int32_t i = self->first_device[backend]; i < self->first_device[backend + 1]; i++) {
        struct tt_granted_device *device = &self->devices[i];
        if (!device->is_usable)
            continue;
        for (int32_t g = 0; g < device->count; g++)
            return_members(self, device, grant_at(self, device, g), died);
        drain_device(now, device);
        if (device->count == 0)
            remove_device(now, device);
        while (device->count > 0) /* the last one removes it */
            finish(self, now, device, false, -1);
    }
}

bool tt_scheduler_role_delay(const struct tt_scheduler_role *self, uint16_t backend,
                             struct tt_network_delay *out_delay, int32_t *out_count) {
    for (int32_t i = self->first_device[backend]; i < self->first_device[backend + 1]; i++) {
        const struct tt_granted_device *device = &self->devices[i];
        const struct tt_mechanism *mechanism = &device->pool->mechanism;
        if (!device->is_usable || !mechanism->delays)
            continue;
        const struct tt_delay_estimate *estimate =
            &mechanism->delays[mechanism->executors[device->executor].network];
        *out_delay = estimate->believed;
        *out_count = estimate->count;
        return true;
    }
    return false;
}

uint16_t tt_scheduler_grants_overdue(const struct tt_scheduler_role *self, int64_t now) {
    const struct tt_heap_entry *first = tt_heap_top(&self->due);
    return first && first->key <= now ? self->devices[first->id].backend : TT_CLUSTER_NO_NODE;
}

int64_t tt_scheduler_grants_overdue_at(const struct tt_scheduler_role *self) {
    return tt_heap_next_key(&self->due);
}
