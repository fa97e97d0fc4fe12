/* Backends that do not have the same models: a batch goes to one that has its model, a model that
 * no backend has is not served, and models that come while the cluster runs are loaded by a
 * command. */
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
    hold(&alone, 0, WORLD_FIRST_BACKEND, WORLD_NODES - 2, false);
    fill(&alone, 3);
    tt_outbox_clear(&alone.role.outbox);
    tt_scheduler_role_link(&alone.role, alone.now, WORLD_NODES - 1, TT_LINK_CLOSED);
    assert_int_equal(sent(&alone, 2, TT_FRAME_SERVE, 0), 1); /* frontends do not serve it */
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
    assert_int_equal(sent(&alone, 2, TT_FRAME_SERVE, 1), 1);
    alone_fini(&alone);
}

/* A model that no backend of its pool has is back when a plan has moved it to another pool. */
static void a_model_leaves_a_pool_without_it(void **state) {
    (void)state;
    struct alone alone;
    struct tt_error why = {{0}};
    static const uint16_t homes[WORLD_MODELS] = {1, 1, 1};
    alone_init_pools(&alone, 2);
    uint16_t moved = 0; /* a model of pool 0 */
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

static void broken_books_are_found(void **state) {
    (void)state;
    static const struct breach breaches[] = {
        BREACH(miscount_parked, "parked == self->parked"),
        BREACH(miscount_holders, "lacking == self->lacking"),
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
        cmocka_unit_test(a_model_leaves_a_pool_without_it),
        cmocka_unit_test(broken_books_are_found),
        cmocka_unit_test(other_models_at_each_backend),
        cmocka_unit_test(one_model_at_each_backend),
        cmocka_unit_test(models_come_and_are_loaded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
