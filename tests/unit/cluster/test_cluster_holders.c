/* Backends that do not have the same models: a batch goes to one that has its model, and a model
 * that no backend has is not served. Requests wait for a while for a backend of a pool without one.
 * Models that come while the cluster runs are loaded by a command. */
#include "unit/breach.h"
#include "unit/cluster/virtual_world.h"
#include "unit/seed.h"

enum { WORLDS = 30, FAULTS = 3, CAPACITY = 8 };

/* The primary, with one backend of two devices that lacks models. */
struct alone {
    struct virtual_world world;
    struct tt_scheduler_role role;
    int64_t now;
};

static void on_record(void *context, int64_t now, uint64_t epoch) {
    (void)context;
    (void)now;
    (void)epoch;
}

static void from(struct alone *self, uint16_t node, enum tt_frame_type type, int32_t count,
                 const struct tt_frame_record *records) {
    const struct tt_frame frame = {
        .type = type, .count = count, .epoch = self->role.primary.epoch, .records = records};
    tt_scheduler_role_receive(&self->role, self->now, node, &frame);
    tt_scheduler_role_check(&self->role);
}

/* All nodes have answered the claim. Backends are dealt to the pools. */
static void alone_init_pools(struct alone *self, uint16_t pools) {
    static const struct tt_frame_record devices[] = {{.device = 0}, {.device = 1}};
    struct tt_error why;
    virtual_world_init(&self->world);
    self->world.settings.depth = 1;
    for (uint16_t i = WORLD_FIRST_BACKEND; i < WORLD_NODES; i++)
        self->world.nodes[i].pool = i % pools;
    assert_int_equal(
        tt_scheduler_role_init(&self->role, &self->world.settings, 0, 0, &self->world.policy, &why),
        TT_OK);
    self->role.record = on_record;
    for (uint16_t i = 2; i < WORLD_NODES; i++)
        tt_scheduler_role_link(&self->role, 0, i, TT_LINK_UP);
    self->now = TT_MS;
    assert_true(tt_scheduler_role_promote(&self->role, self->now));
    for (uint16_t i = 2; i < WORLD_NODES; i++)
        from(self, i, TT_FRAME_STATE, i < WORLD_FIRST_BACKEND ? 0 : 2, devices);
    tt_outbox_clear(&self->role.outbox);
}

static void alone_init(struct alone *self) { alone_init_pools(self, 1); }

static void alone_fini(struct alone *self) {
    tt_scheduler_role_check(&self->role);
    tt_scheduler_role_fini(&self->role);
    virtual_world_fini(&self->world);
}

static void ticket(struct alone *self, uint64_t id, uint16_t model) {
    const struct tt_frame_record record = {
        .id = id << 16 | id, .duration_ns = WORLD_SLO, .model = model, .rows = 1, .attempt = 1};
    from(self, 2, TT_FRAME_TICKET, 1, &record);
}

/* Everything that is due by then is done; returns the grants of the model that were sent. */
static int32_t pass(struct alone *self, int64_t duration_ns, uint16_t model,
                    uint16_t *out_backend) {
    int32_t count = 0;
    int64_t until_at = self->now + duration_ns;
    tt_outbox_clear(&self->role.outbox);
    for (int64_t at; (at = tt_scheduler_role_next_at(&self->role)) <= until_at;) {
        self->now = tt_instant_max(self->now, at);
        for (uint16_t i = 2; i < WORLD_NODES; i++) /* else the primary finds itself alone */
            self->role.peers[i].heard_at = self->now;
        tt_scheduler_role_tick(&self->role, self->now);
    }
    self->now = until_at;
    tt_scheduler_role_check(&self->role);
    for (int64_t i = 0; i < self->role.outbox.frame_count; i++) {
        const struct tt_outbox_frame *frame = &self->role.outbox.frames[i];
        if (frame->type == TT_FRAME_GRANT &&
            self->role.outbox.records[frame->first].model == model) {
            *out_backend = frame->to;
            count++;
        }
    }
    return count;
}

/* Until the scheduler has decided about so many batches of model 0, a request each. */
static void fill(struct alone *self, uint64_t count) {
    uint16_t backend;
    for (uint64_t id = 1; id <= count; id++) {
        ticket(self, id, 0);
        while (self->role.granted + self->role.parked < (int64_t)id)
            pass(self, TT_MS / 4, 0, &backend);
    }
}

static int32_t sent(const struct alone *self, uint16_t to, enum tt_frame_type type, uint16_t code) {
    int32_t count = 0;
    for (int64_t i = 0; i < self->role.outbox.frame_count; i++) {
        const struct tt_outbox_frame *frame = &self->role.outbox.frames[i];
        count += frame->to == to && frame->type == type &&
                 self->role.outbox.records[frame->first].code == code;
    }
    return count;
}

/* What the last set that the node got says of the model: 1: it is absent; -1: it got none. */
static int32_t announced(const struct alone *self, uint16_t to, uint16_t model) {
    int32_t absent = -1;
    for (int64_t i = 0; i < self->role.outbox.frame_count; i++) {
        const struct tt_outbox_frame *frame = &self->role.outbox.frames[i];
        const struct tt_frame_record *record = &self->role.outbox.records[frame->first + model];
        if (frame->to != to || frame->type != TT_FRAME_SERVE)
            continue;
        assert_int_equal(record->model, model);
        assert_int_equal(record->code, 1); /* nothing is unloaded */
        absent = record->rows;
    }
    return absent;
}

static void hold(struct alone *self, uint16_t model, uint16_t first, uint16_t last, bool holds) {
    for (uint16_t i = first; i <= last; i++)
        tt_scheduler_role_hold(&self->role, i, model, holds);
    tt_scheduler_role_check(&self->role);
}

static void a_batch_goes_where_its_model_is(void **state) {
    (void)state;
    struct alone alone;
    uint16_t backend;
    alone_init(&alone);
    hold(&alone, 1, WORLD_FIRST_BACKEND, WORLD_NODES - 2, false);
    ticket(&alone, 1, 1);
    while (pass(&alone, TT_MS, 1, &backend) == 0)
        assert_true(alone.now < WORLD_SLO);
    assert_int_equal(backend, WORLD_NODES - 1);
    assert_int_equal(alone.role.parked, 0);
    alone_fini(&alone);
}

/* S9: rows that a backend ends after their deadline are counted, for advice; others are not. */
static void late_rows_are_counted(void **state) {
    (void)state;
    for (int32_t late = 0; late < 2; late++) {
        struct alone alone;
        uint16_t backend;
        alone_init(&alone);
        ticket(&alone, 1, 1);
        while (pass(&alone, TT_MS, 1, &backend) == 0)
            assert_true(alone.now < WORLD_SLO);
        const struct tt_outbox_frame *frame = alone.role.outbox.frames;
        while (frame->type != TT_FRAME_GRANT)
            frame++;
        struct tt_frame_record done = alone.role.outbox.records[frame->first];
        done.code = 1;
        alone.now = TT_MS + WORLD_SLO + (late ? 1 : -1);
        from(&alone, backend, TT_FRAME_DONE, 1, &done);
        int64_t counted = 0;
        for (int32_t i = 0; i < alone.role.pool_count; i++)
            counted += alone.role.pools[i].late;
        assert_int_equal(alone.role.peers[backend].state, TT_PEER_KNOWN);
        assert_int_equal(counted, late);
        alone_fini(&alone);
    }
}

/* Both devices of the only holder are busy with another model: the batch waits for one of them. */
static void a_batch_waits_for_its_model(void **state) {
    (void)state;
    struct alone alone;
    uint16_t backend = 0;
    alone_init(&alone);
    hold(&alone, 0, WORLD_FIRST_BACKEND, WORLD_NODES - 2, false);
    fill(&alone, 3);
    assert_int_equal(alone.role.granted, 2);
    assert_int_equal(alone.role.parked, 1);
    ticket(&alone, 4, 2); /* other devices go on with other models */
    while (pass(&alone, TT_MS / 4, 2, &backend) == 0)
        assert_true(alone.now < WORLD_SLO);
    const struct tt_frame_record done = {.id = 1, .device = 0, .code = 1};
    from(&alone, WORLD_NODES - 1, TT_FRAME_DONE, 1, &done);
    assert_int_equal(pass(&alone, 0, 0, &backend), 1);
    assert_int_equal(backend, WORLD_NODES - 1);
    assert_int_equal(alone.role.parked, 0);
    alone_fini(&alone);
}

/* The batch has no number yet, so no backend can report its end. */
static void a_parked_batch_does_not_end(void **state) {
    (void)state;
    struct alone alone;
    alone_init(&alone);
    hold(&alone, 0, WORLD_FIRST_BACKEND, WORLD_NODES - 2, false);
    fill(&alone, 3);
    int32_t requests = tt_scheduler_role_requests(&alone.role);
    for (int32_t i = 0; i < alone.role.device_count; i++) {
        const struct tt_granted_device *device = &alone.role.devices[i];
        const struct tt_frame_record done = {.id = 0, .device = device->device, .code = 1};
        from(&alone, device->backend, TT_FRAME_DONE, 1, &done);
    }
    assert_int_equal(alone.role.parked, 1);
    assert_int_equal(tt_scheduler_role_requests(&alone.role), requests);
    alone_fini(&alone);
}

/* The model comes to the backend whose device waits. */
static void a_load_ends_the_wait(void **state) {
    (void)state;
    struct alone alone;
    uint16_t backend = 0;
    alone_init(&alone);
    hold(&alone, 0, WORLD_FIRST_BACKEND, WORLD_NODES - 2, false);
    fill(&alone, 3);
    assert_int_equal(alone.role.parked, 1);
    hold(&alone, 0, WORLD_FIRST_BACKEND, WORLD_NODES - 2, true);
    assert_int_equal(pass(&alone, 0, 0, &backend), 1);
    assert_true(backend < WORLD_NODES - 1);
    assert_int_equal(alone.role.parked, 0);
    alone_fini(&alone);
}

/* The holder goes while a batch waits for it: the requests return, and are dropped then. */
static void what_no_backend_has_is_dropped(void **state) {
    (void)state;
    struct alone alone;
    uint16_t backend = 0;
    alone_init(&alone);
    pass(&alone, alone.world.settings.silence_ns, 0, &backend); /* the claim is not young */
    hold(&alone, 0, WORLD_FIRST_BACKEND, WORLD_NODES - 2, false);
    fill(&alone, 3);
    tt_outbox_clear(&alone.role.outbox);
    tt_scheduler_role_link(&alone.role, alone.now, WORLD_NODES - 1, TT_LINK_CLOSED);
    assert_int_equal(announced(&alone, 2, 0), 1);
    assert_int_equal(announced(&alone, 2, 1), 0);
    pass(&alone, 0, 0, &backend);
    assert_int_equal(alone.role.parked, 0);
    assert_int_equal(tt_scheduler_role_requests(&alone.role), 0);
    tt_outbox_clear(&alone.role.outbox);
    ticket(&alone, 5, 0);
    assert_int_equal(sent(&alone, 2, TT_FRAME_DROP, TT_CLUSTER_DROP_NO_BACKEND), 1);
    ticket(&alone, 6, 1);
    assert_int_equal(tt_scheduler_role_requests(&alone.role), 1);
    tt_outbox_clear(&alone.role.outbox);
    hold(&alone, 0, WORLD_FIRST_BACKEND, WORLD_FIRST_BACKEND, true);
    tt_scheduler_role_tick(&alone.role, alone.now);
    assert_int_equal(announced(&alone, 2, 0), 0);
    alone_fini(&alone);
}

static void all_leave(struct alone *self) {
    for (uint16_t i = WORLD_FIRST_BACKEND; i < WORLD_NODES; i++)
        from(self, i, TT_FRAME_LEAVE, 0, NULL);
    tt_outbox_clear(&self->role.outbox);
}

/* Another process takes the place of the backend. */
static void replace(struct alone *self, uint16_t backend) {
    static const struct tt_frame_record devices[] = {{.device = 0}, {.device = 1}};
    tt_scheduler_role_link(&self->role, self->now, backend, TT_LINK_CLOSED);
    tt_scheduler_role_link(&self->role, self->now, backend, TT_LINK_UP);
    from(self, backend, TT_FRAME_STATE, 2, devices);
}

static void ticket_without_deadline(struct alone *self, uint64_t id, uint16_t model) {
    const struct tt_frame_record record = {
        .id = id << 16 | id, .duration_ns = TT_NEVER, .model = model, .rows = 1, .attempt = 1};
    from(self, 2, TT_FRAME_TICKET, 1, &record);
}

/* S10: a backend that comes within the time gets what waits. */
static void a_vacant_pool_keeps_its_requests(void **state) {
    (void)state;
    struct alone alone;
    uint16_t backend = 0;
    alone_init(&alone);
    all_leave(&alone);
    ticket_without_deadline(&alone, 1, 0);
    assert_int_equal(pass(&alone, alone.world.settings.vacancy_ns - 1, 0, &backend), 0);
    assert_int_equal(announced(&alone, 2, 0), -1);
    assert_int_equal(tt_scheduler_role_requests(&alone.role), 1);
    replace(&alone, WORLD_FIRST_BACKEND + 1);
    while (pass(&alone, TT_MS, 0, &backend) == 0)
        assert_true(alone.now < WORLD_SLO);
    assert_int_equal(backend, WORLD_FIRST_BACKEND + 1);
    assert_int_equal(pass(&alone, alone.world.settings.vacancy_ns, 0, &backend), 0);
    assert_int_equal(sent(&alone, 2, TT_FRAME_DROP, TT_CLUSTER_DROP_NO_BACKEND), 0);
    assert_false(alone.role.models.absent[0]);
    alone_fini(&alone);
}

/* S10: after it, what waits is dropped, and what runs goes on. */
static void a_deserted_pool_takes_nothing(void **state) {
    (void)state;
    struct alone alone;
    uint16_t backend = 0;
    alone_init(&alone);
    alone.world.settings.overdue_ns = TT_S; /* what runs may run on */
    ticket(&alone, 1, 0);
    while (pass(&alone, TT_MS / 4, 0, &backend) == 0)
        assert_true(alone.now < WORLD_SLO);
    const struct tt_grant *grant = NULL;
    for (int32_t i = 0; i < alone.role.device_count; i++)
        if (alone.role.devices[i].count > 0)
            grant = alone.role.devices[i].grants;
    assert_non_null(grant);
    const struct tt_frame_record plan = {.id = grant->number, .code = 1};
    from(&alone, backend, TT_FRAME_ACCEPTED, 1, &plan);
    int64_t left_at = alone.now;
    all_leave(&alone);
    ticket_without_deadline(&alone, 2, 1);
    pass(&alone, alone.world.settings.vacancy_ns - 1, 0, &backend);
    assert_int_equal(sent(&alone, 2, TT_FRAME_DROP, TT_CLUSTER_DROP_NO_BACKEND), 0);
    assert_int_equal(tt_scheduler_role_next_at(&alone.role), alone.now + 1);
    pass(&alone, 1, 0, &backend);
    assert_int_equal(alone.now, left_at + alone.world.settings.vacancy_ns);
    assert_int_equal(sent(&alone, 2, TT_FRAME_DROP, TT_CLUSTER_DROP_NO_BACKEND), 1);
    for (uint16_t m = 0; m < WORLD_MODELS; m++)
        assert_int_equal(announced(&alone, 2, m), 1);
    assert_int_equal(tt_scheduler_role_requests(&alone.role), 1);
    tt_outbox_clear(&alone.role.outbox);
    ticket_without_deadline(&alone, 3, 2);
    assert_int_equal(sent(&alone, 2, TT_FRAME_DROP, TT_CLUSTER_DROP_NO_BACKEND), 1);
    replace(&alone, WORLD_FIRST_BACKEND);
    for (uint16_t m = 0; m < WORLD_MODELS; m++)
        assert_int_equal(announced(&alone, 2, m), 0);
    ticket_without_deadline(&alone, 4, 2);
    assert_false(alone.role.models.absent[2]);
    while (pass(&alone, TT_MS, 2, &backend) == 0)
        assert_true(alone.now < TT_S);
    alone_fini(&alone);
}

/* Without a limit requests wait, as long as it takes. */
static void a_vacancy_without_limit(void **state) {
    (void)state;
    struct alone alone;
    uint16_t backend = 0;
    alone_init(&alone);
    alone.world.settings.vacancy_ns = 0;
    all_leave(&alone);
    ticket_without_deadline(&alone, 1, 0);
    pass(&alone, TT_S, 0, &backend);
    assert_int_equal(tt_scheduler_role_requests(&alone.role), 1);
    replace(&alone, WORLD_NODES - 1);
    while (pass(&alone, TT_MS, 0, &backend) == 0)
        assert_true(alone.now < 2 * TT_S);
    alone_fini(&alone);
}

/* Only the models of the pool; also one that comes while nothing takes its batches. */
static void a_deserted_pool_is_one_of_two(void **state) {
    (void)state;
    struct alone alone;
    uint16_t backend = 0;
    alone_init_pools(&alone, 2);
    for (uint16_t i = WORLD_FIRST_BACKEND; i < WORLD_NODES; i++)
        if (alone.world.nodes[i].pool == 0)
            from(&alone, i, TT_FRAME_LEAVE, 0, NULL);
    pass(&alone, alone.world.settings.vacancy_ns, 0, &backend);
    for (uint16_t m = 0; m < WORLD_MODELS; m++)
        assert_int_equal(announced(&alone, 2, m), alone.role.routes[m] == 0);
    alone_fini(&alone);
}

/* S10: a spare that takes over begins with what the primary said, until a backend answers it. */
static void a_takeover_keeps_what_is_absent(void **state) {
    (void)state;
    struct alone alone;
    uint16_t backend = 0;
    alone_init(&alone);
    struct tt_frame_record set[WORLD_MODELS];
    for (uint16_t m = 0; m < WORLD_MODELS; m++)
        set[m] = (struct tt_frame_record){.id = 9, .model = m, .rows = m == 1, .code = 1};
    tt_scheduler_role_link(&alone.role, alone.now, 1, TT_LINK_UP);
    const struct tt_frame claim = {.type = TT_FRAME_CLAIM, .epoch = tt_epoch(2, 1)};
    tt_scheduler_role_receive(&alone.role, alone.now, 1, &claim);
    assert_false(alone.role.is_primary);
    const struct tt_frame serve = {
        .type = TT_FRAME_SERVE, .count = WORLD_MODELS, .epoch = claim.epoch, .records = set};
    tt_scheduler_role_receive(&alone.role, alone.now, 1, &serve);
    tt_scheduler_role_link(&alone.role, alone.now, 1, TT_LINK_CLOSED);
    assert_true(tt_scheduler_role_promote(&alone.role, alone.now));
    tt_outbox_clear(&alone.role.outbox);
    from(&alone, 2, TT_FRAME_STATE, 0, NULL);
    for (uint16_t m = 0; m < WORLD_MODELS; m++)
        assert_int_equal(announced(&alone, 2, m), m == 1);
    pass(&alone, alone.world.settings.vacancy_ns / 2, 0, &backend);
    assert_true(alone.role.models.absent[1]);
    assert_false(alone.role.models.absent[0]);
    static const struct tt_frame_record devices[] = {{.device = 0}, {.device = 1}};
    from(&alone, WORLD_NODES - 1, TT_FRAME_STATE, 2, devices);
    assert_int_equal(announced(&alone, 2, 1), 0);
    pass(&alone, 2 * alone.world.settings.vacancy_ns, 0, &backend);
    assert_false(alone.role.models.absent[0]);
    alone_fini(&alone);
}

/* Backends that lack a model may be the first to answer a new primary. */
static void a_takeover_waits_for_answers(void **state) {
    (void)state;
    static const struct tt_frame_record devices[] = {{.device = 0}, {.device = 1}};
    for (int32_t answers = 0; answers < 2; answers++) {
        struct alone alone;
        uint16_t backend = 0;
        alone_init(&alone);
        hold(&alone, 1, WORLD_FIRST_BACKEND, WORLD_NODES - 2, false);
        tt_scheduler_role_resign(&alone.role, alone.now);
        assert_true(tt_scheduler_role_promote(&alone.role, alone.now));
        from(&alone, 2, TT_FRAME_STATE, 0, NULL);
        ticket_without_deadline(&alone, 1, 1);
        for (uint16_t i = WORLD_FIRST_BACKEND; i < WORLD_NODES - 1; i++)
            from(&alone, i, TT_FRAME_STATE, 2, devices);
        pass(&alone, alone.world.settings.silence_ns - 1, 1, &backend);
        assert_int_equal(sent(&alone, 2, TT_FRAME_RETURN, 0), 0);
        assert_int_equal(tt_scheduler_role_requests(&alone.role), 1);
        assert_false(alone.role.models.absent[1]);
        if (answers)
            from(&alone, WORLD_NODES - 1, TT_FRAME_STATE, 2, devices);
        int32_t grants = pass(&alone, 1, 1, &backend);
        assert_int_equal(grants, answers);
        assert_int_equal(alone.role.models.absent[1], !answers);
        assert_int_equal(tt_scheduler_role_requests(&alone.role), answers);
        alone_fini(&alone);
    }
}

static void on_answered(void *context, void *user, enum tt_answer answer, int32_t reason) {
    (void)user;
    (void)answer;
    (void)reason;
    ++*(int32_t *)context;
}

/* A frontend refuses what the primary says is absent, and knows whether it serves anything. */
static void a_frontend_knows_what_is_absent(void **state) {
    (void)state;
    struct virtual_world world;
    struct tt_frontend frontend;
    int32_t answered = 0;
    virtual_world_init(&world);
    assert_int_equal(tt_frontend_init(&frontend, &world.settings, 2, 1, 0), TT_OK);
    frontend.answered = on_answered;
    frontend.context = &answered;
    uint64_t epoch = tt_epoch(1, 0);
    tt_frontend_receive(&frontend, 0, 0,
                        &(struct tt_frame){.type = TT_FRAME_CLAIM, .epoch = epoch});
    static const struct {
        uint16_t served[WORLD_MODELS], absent[WORLD_MODELS];
        bool starved;
    } cases[] = {
        {{1, 1, 1}, {0, 0, 0}, false}, {{1, 1, 1}, {1, 1, 1}, true},
        {{1, 1, 1}, {1, 1, 0}, false}, {{0, 1, 0}, {0, 1, 0}, true},
        {{0, 1, 0}, {1, 0, 1}, false}, {{0, 0, 0}, {0, 0, 0}, false}}; /* clients unloaded them */
    for (size_t c = 0; c < sizeof(cases) / sizeof(*cases); c++) {
        struct tt_frame_record records[WORLD_MODELS];
        for (uint16_t m = 0; m < WORLD_MODELS; m++)
            records[m] = (struct tt_frame_record){
                .id = c + 1, .model = m, .rows = cases[c].absent[m], .code = cases[c].served[m]};
        const struct tt_frame frame = {
            .type = TT_FRAME_SERVE, .count = WORLD_MODELS, .epoch = epoch, .records = records};
        tt_frontend_receive(&frontend, 0, 0, &frame);
        tt_frontend_check(&frontend);
        assert_int_equal(tt_frontend_is_starved(&frontend), cases[c].starved);
        for (uint16_t m = 0; m < WORLD_MODELS; m++) {
            const struct tt_frontend_submission submission = {
                .model = m, .rows = 1, .deadline_at = TT_NEVER};
            uint64_t id;
            bool is_refused = cases[c].served[m] && cases[c].absent[m];
            assert_int_equal(tt_frontend_submit(&frontend, 0, &submission, &id),
                             is_refused ? TT_ERR_UNAVAILABLE : TT_OK);
            assert_true(is_refused || tt_frontend_cancel(&frontend, id));
        }
    }
    assert_int_equal(frontend.rejected, 0);
    assert_int_equal(frontend.accepted, answered);
    tt_frontend_fini(&frontend);
    virtual_world_fini(&world);
}

/* A model that no backend of its pool has is back when a plan has moved it to another pool. */
static void a_model_leaves_a_pool_without_it(void **state) {
    (void)state;
    struct alone alone;
    struct tt_error why = {{0}};
    static const uint16_t homes[WORLD_MODELS] = {1, 1, 1};
    alone_init_pools(&alone, 2);
    uint16_t moved = 0, backend = 0; /* a model of pool 0 */
    pass(&alone, alone.world.settings.silence_ns, 0, &backend);
    while (alone.role.routes[moved] != 0)
        moved++;
    for (uint16_t i = WORLD_FIRST_BACKEND; i < WORLD_NODES; i++)
        if (alone.world.nodes[i].pool == 0)
            tt_scheduler_role_hold(&alone.role, i, moved, false);
    tt_scheduler_role_tick(&alone.role, alone.now);
    assert_true(alone.role.models.absent[moved]);
    tt_scheduler_role_link(&alone.role, alone.now, 1, TT_LINK_CLOSED); /* no spare has to know */
    if (tt_scheduler_role_place(&alone.role, alone.now, homes, &why))
        fail_msg("%s", why.text);
    for (uint16_t i = tt_model_set_awaited(&alone.role.models); i != TT_CLUSTER_NO_NODE;
         i = tt_model_set_awaited(&alone.role.models)) {
        const struct tt_frame_record served = {.id = alone.role.models.awaited[i]};
        from(&alone, i, TT_FRAME_SERVED, 1, &served);
    }
    assert_int_equal(alone.role.routes[moved], 1);
    assert_false(alone.role.models.absent[moved]);
    alone_fini(&alone);
}

static void miscount_parked(void) {
    struct alone alone;
    alone_init(&alone);
    alone.role.parked++;
    tt_scheduler_role_check(&alone.role);
}

static void miscount_holders(void) {
    struct alone alone;
    alone_init(&alone);
    alone.role.lacking[1]++;
    tt_scheduler_role_check(&alone.role);
}

static void miscount_vacancies(void) {
    struct alone alone;
    alone_init(&alone);
    alone.role.pools[0].is_vacant = true;
    tt_scheduler_role_check(&alone.role);
}

static void broken_books_are_found(void **state) {
    (void)state;
    static const struct breach breaches[] = {
        BREACH(miscount_parked, "parked == self->parked"),
        BREACH(miscount_holders, "lacking == self->lacking"),
        BREACH(miscount_vacancies, "pool->is_vacant == !takes_batches"),
    };
    assert_all_break(breaches, sizeof(breaches) / sizeof(*breaches));
}

/* ---- whole clusters ---- */

/* Each backend lacks one model in three, each model has a backend; nodes crash, freeze and are cut
 * off. No batch runs where its model is not, and every request is answered once. */
static void other_models_at_each_backend(void **state) {
    (void)state;
    struct virtual_world world;
    virtual_world_init(&world);
    int64_t answered = 0;
    for (uint64_t seed = test_seed(1), end = seed + WORLDS; seed < end; seed++) {
        struct tt_prng prng;
        tt_prng_init(&prng, seed, 7);
        bool lacks[WORLD_NODES * WORLD_MODELS] = {false};
        for (int32_t i = WORLD_FIRST_BACKEND; i < WORLD_NODES; i++)
            for (int32_t m = 0; m < WORLD_MODELS; m++)
                lacks[i * WORLD_MODELS + m] =
                    i - WORLD_FIRST_BACKEND != m && tt_prng_below(&prng, 3) == 0;
        struct tt_fault faults[FAULTS];
        virtual_world_draw_faults(&prng, 100 * TT_MS, 80 * TT_MS, 300 * TT_MS, FAULTS, faults);
        struct tt_virtual_options options = virtual_world_options(&world, seed);
        options.until_at = 500 * TT_MS;
        options.faults = faults;
        options.fault_count = seed % 3 ? FAULTS : 0;
        options.cancel_permille = 100;
        options.lacks = lacks;
        struct tt_virtual_result result;
        struct tt_error why;
        assert_int_equal(tt_virtual_cluster_run(&options, &result, &why), TT_OK);
        if (result.violation[0])
            print_message("seed %d: %s\n", (int)seed, result.violation);
        assert_string_equal(result.violation, "");
        assert_int_equal(result.accepted, result.answered + result.cancelled + result.gone);
        answered += result.answered;
    }
    assert_true(answered > 0);
    virtual_world_fini(&world);
}

/* Each backend has one model, so no device can take the place of one at another backend unless they
 * exchange what waits there. */
static void one_model_at_each_backend(void **state) {
    (void)state;
    struct virtual_world world;
    virtual_world_init(&world);
    bool lacks[WORLD_NODES * WORLD_MODELS] = {false};
    for (int32_t i = WORLD_FIRST_BACKEND; i < WORLD_NODES; i++)
        for (int32_t m = 0; m < WORLD_MODELS; m++)
            lacks[i * WORLD_MODELS + m] = i % WORLD_MODELS != m;
    for (uint64_t seed = test_seed(1), end = seed + WORLDS; seed < end; seed++) {
        struct tt_virtual_options options = virtual_world_options(&world, seed);
        options.until_at = 500 * TT_MS;
        options.loss_permille = 0;
        options.gap_ns = 150 * TT_US;
        options.lacks = lacks;
        struct tt_virtual_result result;
        struct tt_error why;
        assert_int_equal(tt_virtual_cluster_run(&options, &result, &why), TT_OK);
        assert_string_equal(result.violation, "");
        assert_true(result.answered > 0);
        assert_int_equal(result.accepted, result.answered);
    }
    virtual_world_fini(&world);
}

struct ends {
    int64_t dropped, dropped_late, last_done_at;
    int64_t wait_ns; /* the longest that a dropped request should have waited */
};

static void on_ended(void *context, const struct tt_virtual_ending *ending) {
    struct ends *self = context;
    if (ending->answer == TT_ANSWER_DROPPED) {
        self->dropped++;
        self->dropped_late += ending->ended_at - ending->accepted_at > self->wait_ns;
    } else if (ending->answer == TT_ANSWER_DONE) {
        self->last_done_at = tt_instant_max(self->last_done_at, ending->ended_at);
    }
}

/* S10: all backends drain, and other processes take their places, `late_ns` after the last one has
 * drained. Requests have far deadlines. Every other world has a takeover meanwhile. */
static struct ends drain_all(uint64_t seed, int64_t late_ns) {
    struct virtual_world world;
    virtual_world_init(&world);
    enum { BACKENDS = WORLD_NODES - WORLD_FIRST_BACKEND };
    struct tt_fault faults[BACKENDS + 1];
    for (int32_t i = 0; i < BACKENDS; i++)
        faults[i] = (struct tt_fault){.at = (100 + i) * TT_MS,
                                      .duration_ns = (BACKENDS - i) * TT_MS + late_ns,
                                      .kind = TT_FAULT_LEAVE,
                                      .node = (uint16_t)(WORLD_FIRST_BACKEND + i)};
    faults[BACKENDS] = (struct tt_fault){
        .at = 110 * TT_MS, .duration_ns = TT_MS, .kind = TT_FAULT_RESIGN, .node = 0};
    struct tt_virtual_options options = virtual_world_options(&world, seed);
    bool has_takeover = seed % 2 == 0;
    int64_t waits_ns = world.settings.vacancy_ns * (1 + has_takeover);
    struct ends ends = {.wait_ns = waits_ns + 5 * TT_MS};
    options.until_at = 500 * TT_MS;
    options.slo_ns = 10 * TT_S;
    options.faults = faults;
    options.fault_count = BACKENDS + has_takeover;
    options.ended = on_ended;
    options.context = &ends;
    options.check_every = 1;
    struct tt_virtual_result result;
    struct tt_error why;
    assert_int_equal(tt_virtual_cluster_run(&options, &result, &why), TT_OK);
    assert_string_equal(result.violation, "");
    assert_int_equal(result.accepted, result.answered);
    assert_true((result.refused > 0) == (ends.dropped > 0));
    virtual_world_fini(&world);
    return ends;
}

static void all_backends_drain(void **state) {
    (void)state;
    for (uint64_t seed = test_seed(1), end = seed + WORLDS; seed < end; seed++) {
        struct ends ends = drain_all(seed, 20 * TT_MS); /* within the time */
        assert_int_equal(ends.dropped, 0);
        ends = drain_all(seed, 200 * TT_MS);
        assert_true(ends.dropped > 0);
        assert_int_equal(ends.dropped_late, 0);
        assert_true(ends.last_done_at > 450 * TT_MS);
    }
}

struct growing {
    struct virtual_world world;
    struct tt_step_model models[CAPACITY];
    const struct tt_step_model *pointers[CAPACITY];
};

static void come(void *context) {
    struct growing *self = context;
    tt_assert(self->world.settings.model_count < CAPACITY);
    self->world.settings.model_count++;
}

/* Models come, are loaded and unloaded under load, while loads fail and nodes crash, freeze and are
 * cut off: the nodes serve the same in the end, and nothing is lost or answered twice. */
static void models_come_and_are_loaded(void **state) {
    (void)state;
    int64_t wished = 0, answered = 0;
    for (uint64_t seed = test_seed(1), end = seed + WORLDS; seed < end; seed++) {
        struct growing growing;
        virtual_world_init(&growing.world);
        for (int32_t i = 0; i < CAPACITY; i++) {
            growing.models[i] = growing.world.models[0];
            growing.pointers[i] = &growing.models[i];
        }
        growing.world.settings.models = growing.pointers;
        growing.world.settings.model_capacity = CAPACITY;
        struct tt_prng prng;
        tt_prng_init(&prng, seed, 8);
        struct tt_fault faults[FAULTS];
        virtual_world_draw_faults(&prng, 100 * TT_MS, 80 * TT_MS, 300 * TT_MS, FAULTS, faults);
        struct tt_virtual_options options = virtual_world_options(&growing.world, seed);
        options.until_at = 700 * TT_MS;
        options.faults = faults;
        options.fault_count = seed % 4 ? FAULTS : 0;
        options.loss_permille = 100;
        options.wish_gap_ns = 40 * TT_MS; /* as fast as they are carried out */
        options.failure_permille = seed % 3 ? 100 : 0;
        options.model_gap_ns = 60 * TT_MS;
        options.come = come;
        options.context = &growing;
        struct tt_virtual_result result;
        struct tt_error why;
        assert_int_equal(tt_virtual_cluster_run(&options, &result, &why), TT_OK);
        if (result.violation[0])
            print_message("seed %d: %s\n", (int)seed, result.violation);
        assert_string_equal(result.violation, "");
        assert_int_equal(growing.world.settings.model_count, CAPACITY);
        if (options.fault_count == 0 && options.failure_permille == 0)
            assert_true(result.wished == result.wishes && result.wished > 0);
        wished += result.wished;
        answered += result.answered;
        virtual_world_fini(&growing.world);
    }
    assert_true(wished > 0 && answered > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_batch_goes_where_its_model_is),
        cmocka_unit_test(late_rows_are_counted),
        cmocka_unit_test(a_batch_waits_for_its_model),
        cmocka_unit_test(a_parked_batch_does_not_end),
        cmocka_unit_test(a_load_ends_the_wait),
        cmocka_unit_test(what_no_backend_has_is_dropped),
        cmocka_unit_test(a_vacant_pool_keeps_its_requests),
        cmocka_unit_test(a_deserted_pool_takes_nothing),
        cmocka_unit_test(a_vacancy_without_limit),
        cmocka_unit_test(a_deserted_pool_is_one_of_two),
        cmocka_unit_test(a_takeover_keeps_what_is_absent),
        cmocka_unit_test(a_takeover_waits_for_answers),
        cmocka_unit_test(a_frontend_knows_what_is_absent),
        cmocka_unit_test(a_model_leaves_a_pool_without_it),
        cmocka_unit_test(broken_books_are_found),
        cmocka_unit_test(other_models_at_each_backend),
        cmocka_unit_test(one_model_at_each_backend),
        cmocka_unit_test(all_backends_drain),
        cmocka_unit_test(models_come_and_are_loaded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
