/* Clients that go: their requests leave the frontend, the scheduler's queue and the backend's
 * plans, whatever is lost, repeated or delayed on the way, and nothing of them is left anywhere. */
#include "base/prng.h"
#include "unit/cluster/virtual_world.h"
#include "unit/seed.h"

#include <string.h>

enum { SCHEDULER = 0, FRONTEND = 2, OTHER_FRONTEND = 3, BACKEND = 4, WORLDS = 40, FAULTS = 3 };

/* ---- a backend ---- */

struct devices {
    const struct tt_plan *running;
    int32_t runs, withdrawn, withdrawn_running;
};

static void on_run(void *context, int64_t now, int32_t device, const struct tt_plan *plan) {
    (void)now;
    (void)device;
    struct devices *self = context;
    self->running = plan;
    self->runs++;
}

static void on_withdrawn(void *context, const struct tt_plan *plan, struct tt_plan_member *member) {
    struct devices *self = context;
    assert_true(member->is_here == (plan->state == TT_PLAN_RUNNING));
    self->withdrawn++;
    self->withdrawn_running += plan->state == TT_PLAN_RUNNING;
}

static void send(struct tt_backend *backend, uint16_t from, enum tt_frame_type type,
                 const struct tt_frame_record *records, int32_t count) {
    struct tt_frame frame = {
        .type = type, .count = count, .epoch = tt_epoch(1, SCHEDULER), .records = records};
    tt_backend_receive(backend, TT_MS, from, &frame);
    tt_backend_check(backend);
}

/* A plan of requests 1 and 2 on device 0. */
static void grant(struct tt_backend *backend, struct devices *devices,
                  const struct virtual_world *world) {
    assert_int_equal(tt_backend_init(backend, &world->settings, BACKEND), TT_OK);
    *devices = (struct devices){0};
    backend->context = devices;
    backend->run = on_run;
    backend->withdrawn = on_withdrawn;
    send(backend, SCHEDULER, TT_FRAME_CLAIM, NULL, 0);
    send(backend, SCHEDULER, TT_FRAME_GRANT,
         (struct tt_frame_record[]){{.id = 1},
                                    {.id = 1, .node = FRONTEND, .rows = 1, .attempt = 3},
                                    {.id = 2, .node = FRONTEND, .rows = 1, .attempt = 1}},
         3);
}

static void give_input(struct tt_backend *backend, uint64_t id, uint16_t attempt) {
    send(backend, FRONTEND, TT_FRAME_INPUT,
         &(struct tt_frame_record){.id = id, .attempt = attempt, .code = 1}, 1);
}

static void cancel(struct tt_backend *backend, uint16_t from, uint64_t id, uint16_t attempt) {
    send(backend, from, TT_FRAME_CANCEL, &(struct tt_frame_record){.id = id, .attempt = attempt},
         1);
}

static int32_t sent(const struct tt_backend *backend, enum tt_frame_type type) {
    int32_t count = 0;
    for (int64_t i = 0; i < backend->outbox.frame_count; i++)
        if (backend->outbox.frames[i].type == type)
            count += backend->outbox.frames[i].count;
    return count;
}

static void a_plan_runs_without_those_that_went(void **state) {
    (void)state;
    struct virtual_world world;
    struct tt_backend backend;
    struct devices devices;
    virtual_world_init(&world);
    grant(&backend, &devices, &world);
    cancel(&backend, FRONTEND, 1, 2);       /* an older attempt than the one granted */
    cancel(&backend, OTHER_FRONTEND, 1, 3); /* another frontend's */
    give_input(&backend, 2, 1);
    assert_int_equal(devices.runs, 0);
    cancel(&backend, FRONTEND, 1, 4);
    assert_int_equal(devices.runs, 1);
    assert_false(devices.running->members[0].is_here);
    assert_true(devices.running->members[1].is_here);
    assert_int_equal(devices.withdrawn, 0); /* it had no input */
    give_input(&backend, 1, 3);             /* too late: it changes nothing */
    cancel(&backend, FRONTEND, 2, 1);
    assert_int_equal(devices.withdrawn_running, 1);
    tt_backend_ran(&backend, 2 * TT_MS, 0, true);
    assert_int_equal(sent(&backend, TT_FRAME_DONE), 1);
    assert_int_equal(sent(&backend, TT_FRAME_RESULT), 1); /* of request 2 */
    for (int64_t i = 0; i < backend.outbox.frame_count; i++)
        if (backend.outbox.frames[i].type == TT_FRAME_RESULT) /* another backend may have it */
            assert_int_equal(tt_outbox_frame(&backend.outbox, i).records[0].code, 0);
    assert_true(tt_backend_is_idle(&backend));
    tt_backend_fini(&backend);
    virtual_world_fini(&world);
}

/* A driver that answers each member when it ends: what was withdrawn meanwhile is no answer,
 * either, and the end of the plan adds nothing. */
static void members_that_answer_by_themselves(void **state) {
    (void)state;
    struct virtual_world world;
    struct tt_backend backend;
    struct devices devices;
    virtual_world_init(&world);
    grant(&backend, &devices, &world);
    give_input(&backend, 1, 3);
    give_input(&backend, 2, 1);
    assert_int_equal(devices.runs, 1);
    struct tt_plan_member *first = &devices.running->members[0], *second = first + 1;
    tt_backend_emitted(&backend, devices.running, first, 1);
    cancel(&backend, FRONTEND, 1, 3);
    cancel(&backend, FRONTEND, 1, 3); /* again: nothing is withdrawn twice */
    assert_int_equal(devices.withdrawn_running, 1);
    tt_backend_answer(&backend, devices.running, first, true);
    tt_backend_check(&backend);
    tt_backend_answer(&backend, devices.running, second, true);
    cancel(&backend, FRONTEND, 2, 1); /* too late: it has its result */
    assert_false(second->is_withdrawn);
    tt_backend_ran(&backend, 2 * TT_MS, 0, true);
    assert_int_equal(sent(&backend, TT_FRAME_DONE), 1);
    assert_int_equal(sent(&backend, TT_FRAME_RESULT), 2);
    for (int64_t i = 0; i < backend.outbox.frame_count; i++) {
        struct tt_frame frame = tt_outbox_frame(&backend.outbox, i);
        for (int32_t k = 0; frame.type == TT_FRAME_RESULT && k < frame.count; k++)
            assert_int_equal(frame.records[k].code, frame.records[k].id == 2);
    }
    assert_true(tt_backend_is_idle(&backend));
    tt_backend_fini(&backend);
    virtual_world_fini(&world);
}

/* A backend that shares memory with the frontend. */
static void read_inputs(void *context, struct tt_plan *plan) {
    (void)context;
    for (int32_t i = 0; i < plan->count; i++)
        plan->members[i].is_here = plan->members[i].id != 2;
}

static const struct tt_frame_record *fetched(const struct tt_backend *backend, int32_t index) {
    for (int64_t i = 0; i < backend->outbox.frame_count; i++)
        if (backend->outbox.frames[i].type == TT_FRAME_FETCH)
            return &tt_outbox_frame(&backend->outbox, i).records[index];
    return NULL;
}

static void inputs_that_are_read_are_not_awaited(void **state) {
    (void)state;
    struct virtual_world world;
    struct tt_backend backend;
    struct devices devices = {0};
    virtual_world_init(&world);
    assert_int_equal(tt_backend_init(&backend, &world.settings, BACKEND), TT_OK);
    backend.context = &devices;
    backend.run = on_run;
    backend.withdrawn = on_withdrawn;
    backend.read_inputs = read_inputs;
    send(&backend, SCHEDULER, TT_FRAME_CLAIM, NULL, 0);
    send(&backend, SCHEDULER, TT_FRAME_GRANT,
         (struct tt_frame_record[]){{.id = 1},
                                    {.id = 1, .node = FRONTEND, .rows = 1, .attempt = 3},
                                    {.id = 2, .node = FRONTEND, .rows = 1, .attempt = 1}},
         3);
    assert_int_equal(fetched(&backend, 0)->code, 1);
    assert_int_equal(fetched(&backend, 1)->code, 0);
    assert_int_equal(devices.runs, 0); /* request 2 is awaited */
    give_input(&backend, 2, 1);
    assert_int_equal(devices.runs, 1);
    tt_backend_ran(&backend, 2 * TT_MS, 0, true);
    send(&backend, SCHEDULER, TT_FRAME_GRANT,
         (struct tt_frame_record[]){{.id = 2, .device = 1},
                                    {.id = 4, .node = FRONTEND, .rows = 1, .attempt = 1}},
         2);
    assert_int_equal(devices.runs, 2); /* at once */
    tt_backend_fini(&backend);
    virtual_world_fini(&world);
}

static void a_plan_of_none_ends_at_once(void **state) {
    (void)state;
    struct virtual_world world;
    struct tt_backend backend;
    struct devices devices;
    virtual_world_init(&world);
    grant(&backend, &devices, &world);
    give_input(&backend, 1, 3);
    cancel(&backend, FRONTEND, 1, 3);
    assert_int_equal(devices.withdrawn, 1);
    assert_int_equal(devices.withdrawn_running, 0);
    cancel(&backend, FRONTEND, 1, 3); /* again: nothing is withdrawn twice */
    assert_int_equal(devices.withdrawn, 1);
    cancel(&backend, FRONTEND, 2, 1);
    assert_int_equal(devices.runs, 0);
    assert_int_equal(sent(&backend, TT_FRAME_DONE), 1);
    assert_int_equal(sent(&backend, TT_FRAME_RESULT), 0);
    assert_true(tt_backend_is_idle(&backend));
    tt_backend_fini(&backend);
    virtual_world_fini(&world);
}

/* ---- a frontend ---- */

struct answers {
    int32_t count;
    enum tt_answer last;
};

static void on_answered(void *context, void *user, enum tt_answer answer, int32_t reason) {
    (void)user;
    (void)reason;
    struct answers *self = context;
    self->count++;
    self->last = answer;
}

static void a_frontend_recalls_from_both(void **state) {
    (void)state;
    struct virtual_world world;
    struct tt_frontend frontend;
    struct answers answers = {0};
    virtual_world_init(&world);
    assert_int_equal(tt_frontend_init(&frontend, &world.settings, FRONTEND, 1, 0), TT_OK);
    frontend.context = &answers;
    frontend.answered = on_answered;
    const struct tt_frontend_submission submission = {.rows = 1, .deadline_at = TT_NEVER};
    uint64_t held, ticketed, fetched;
    assert_int_equal(tt_frontend_submit(&frontend, 0, &submission, &held), TT_OK);
    assert_true(tt_frontend_cancel(&frontend, held)); /* no scheduler knows of it */
    assert_int_equal(frontend.outbox.frame_count, 0);
    struct tt_frame claim = {.type = TT_FRAME_CLAIM, .epoch = tt_epoch(1, SCHEDULER)};
    tt_frontend_receive(&frontend, 0, SCHEDULER, &claim);
    assert_int_equal(tt_frontend_submit(&frontend, 0, &submission, &ticketed), TT_OK);
    assert_int_equal(tt_frontend_submit(&frontend, 0, &submission, &fetched), TT_OK);
    struct tt_frame fetch = {.type = TT_FRAME_FETCH,
                             .count = 1,
                             .epoch = claim.epoch,
                             .records = &(struct tt_frame_record){.id = fetched, .attempt = 1}};
    tt_frontend_receive(&frontend, 0, BACKEND, &fetch);
    tt_outbox_clear(&frontend.outbox);
    assert_true(tt_frontend_cancel(&frontend, ticketed));
    assert_int_equal(frontend.outbox.frame_count, 1);
    assert_int_equal(frontend.outbox.frames[0].to, SCHEDULER);
    assert_int_equal(frontend.outbox.frames[0].type, TT_FRAME_CANCEL);
    assert_true(tt_frontend_cancel(&frontend, fetched));
    assert_int_equal(frontend.outbox.frame_count, 2); /* the scheduler's is in the same frame */
    assert_int_equal(frontend.outbox.frames[1].to, BACKEND);
    assert_false(tt_frontend_cancel(&frontend, fetched));
    /* A backend that has read the input of a request that went. */
    tt_outbox_clear(&frontend.outbox);
    fetch.records = &(struct tt_frame_record){.id = fetched, .attempt = 1, .code = 1};
    tt_frontend_receive(&frontend, 0, BACKEND, &fetch);
    assert_int_equal(frontend.outbox.frame_count, 1);
    assert_int_equal(frontend.outbox.frames[0].type, TT_FRAME_CANCEL);
    assert_int_equal(frontend.outbox.frames[0].to, BACKEND);
    assert_int_equal(answers.count, 3);
    assert_int_equal(answers.last, TT_ANSWER_CANCELLED);
    tt_frontend_check(&frontend);
    assert_int_equal(frontend.live, 0);
    tt_frontend_fini(&frontend);
    virtual_world_fini(&world);
}

/* ---- a cluster ---- */

/* Two of three clients go, half of the datagrams are lost or repeated, and nodes fail. */
static void nothing_is_left_of_clients_that_go(void **state) {
    (void)state;
    struct virtual_world world;
    virtual_world_init(&world);
    int64_t cancelled = 0, answered = 0;
    for (uint64_t seed = test_seed(1), end = seed + WORLDS; seed < end; seed++) {
        struct tt_prng prng;
        tt_prng_init(&prng, seed, 5);
        struct tt_fault faults[FAULTS];
        virtual_world_draw_faults(&prng, 60 * TT_MS, 60 * TT_MS, 100 * TT_MS, FAULTS, faults);
        struct tt_virtual_options options = virtual_world_options(&world, seed);
        options.until_at = 400 * TT_MS;
        options.faults = faults;
        options.fault_count = seed % 2 ? FAULTS : 0;
        options.loss_permille = 500;
        options.cancel_permille = 667;
        options.shared_permille = seed % 4 < 2 ? 500 : 0;
        struct tt_virtual_result result;
        struct tt_error why;
        assert_int_equal(tt_virtual_cluster_run(&options, &result, &why), TT_OK);
        if (result.violation[0])
            print_message("seed %d: %s\n", (int)seed, result.violation);
        assert_string_equal(result.violation, "");
        assert_true(result.accepted == result.answered + result.cancelled + result.gone);
        cancelled += result.cancelled;
        answered += result.answered;
    }
    assert_true(cancelled > 0 && answered > 0);
    virtual_world_fini(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_runs_without_those_that_went),
        cmocka_unit_test(members_that_answer_by_themselves),
        cmocka_unit_test(inputs_that_are_read_are_not_awaited),
        cmocka_unit_test(a_plan_of_none_ends_at_once),
        cmocka_unit_test(a_frontend_recalls_from_both),
        cmocka_unit_test(nothing_is_left_of_clients_that_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
