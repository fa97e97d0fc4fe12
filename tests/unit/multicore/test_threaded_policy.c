/* threaded */
/* A batch that the threads have planned comes back while its executor is removed: to a model that
 * is removed, too, or to another one with its number. Network delays move decisions ahead. */
#include "base/clock.h"
#include "base/threads/flag.h"
#include "multicore/threaded_policy.h"
#include "unit/multicore/lone_carrier.h"

#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

static struct tt_flag planned;

static void wake(void *context) {
    (void)context;
    tt_flag_raise(&planned);
}

static void open_with(struct tt_mechanism *mechanism, const struct tt_carrier *carrier,
                      const char *name, struct tt_network_delay delay, bool learns) {
    struct tt_error why;
    struct tt_mechanism_options limits = {.model_capacity = 1,
                                          .executor_capacity = 1,
                                          .max_batch = 2,
                                          .depth = 1,
                                          .request_limit = 4,
                                          .learns_delays = learns,
                                          .delay = delay};
    assert_int_equal(tt_mechanism_init(mechanism, &limits, carrier, &why), TT_OK);
    struct tt_policy_setup setup = {.domain = mechanism,
                                    .d_ctrl_ns = delay.control_ns,
                                    .d_data_ns = delay.data_ns,
                                    .lateness_ns = 10 * TT_S};
    struct tt_threaded_policy_options options = {
        .threads = 1, .max_batch = 2, .request_limit = 4, .wake = wake};
    assert_int_equal(tt_threaded_policy_create(mechanism, name, &setup, &options, &why), TT_OK);
    assert_int_equal(tt_threaded_policy_start(mechanism->policy, &why), TT_OK);
}

static void open_domain(struct tt_mechanism *mechanism, const struct tt_carrier *carrier) {
    open_with(mechanism, carrier, "deferred", (struct tt_network_delay){0, 0}, false);
}

static struct tt_request *arrive(struct tt_mechanism *mechanism, int32_t rows) {
    int64_t now = tt_clock_now();
    struct tt_arrival arrival = {.rows = rows, .deadline_at = now + 60 * TT_S};
    struct tt_request *request;
    assert_int_equal(tt_mechanism_arrived(mechanism, now, &arrival, &request), TT_OK);
    return request;
}

static void exchange_model(struct tt_mechanism *mechanism, const struct tt_step_model *comes) {
    tt_mechanism_drain_model(mechanism, tt_clock_now(), 0);
    tt_mechanism_remove_model(mechanism, tt_clock_now(), 0);
    if (comes)
        tt_mechanism_add_model(mechanism, tt_clock_now(), 0, comes);
}

/* A batch of two rows waits to run when its request, its model and its executor are removed. */
static void a_batch_comes_back_to_a_model_that_went(void **state) {
    (void)state;
    struct tt_error why;
    struct tt_profile *profile;
    struct tt_profile_point point = {.batch = 1, .latency_ns = TT_US};
    assert_int_equal(tt_profile_new_points(&point, 1, 2, &profile, &why), TT_OK);
    struct tt_step step = {.name = "s", .profile = profile};
    struct tt_step_model models[2] = {
        {.step_count = 1, .steps = &step, .whole = profile, .slo_ns = TT_S, .max_batch = 2},
        {.step_count = 1, .steps = &step, .whole = profile, .slo_ns = TT_S, .max_batch = 1}};
    for (int32_t comes_early = 0; comes_early < 2; comes_early++) {
        struct tt_task *running = NULL;
        struct tt_carrier carrier = lone_carrier(&running);
        struct tt_mechanism mechanism;
        planned = (struct tt_flag){0};
        open_domain(&mechanism, &carrier);
        tt_mechanism_add_model(&mechanism, tt_clock_now(), 0, &models[0]);
        struct tt_request *request = arrive(&mechanism, 2);
        tt_mechanism_decide(&mechanism, tt_clock_now()); /* the threads get it */
        tt_mechanism_add_executor(&mechanism, tt_clock_now(), 0, 0);
        while (!tt_flag_is_raised(&planned))
            usleep(1000);
        tt_mechanism_cancelled(&mechanism, tt_clock_now(), request);
        exchange_model(&mechanism, comes_early ? &models[1] : NULL);
        tt_mechanism_drain_executor(&mechanism, tt_clock_now(), 0);
        tt_mechanism_remove_executor(&mechanism, tt_clock_now(), 0);
        tt_mechanism_decide(&mechanism, tt_clock_now());
        usleep(20000); /* usually it comes back before the executor does */
        if (!comes_early)
            tt_mechanism_add_model(&mechanism, tt_clock_now(), 0, &models[1]);
        tt_mechanism_add_executor(&mechanism, tt_clock_now(), 0, 0);
        request = arrive(&mechanism, 1);
        while (!running) {
            usleep(1000);
            tt_mechanism_decide(&mechanism, tt_clock_now());
        }
        assert_int_equal(running->count, 1);
        assert_ptr_equal(running->items[0].request, request);
        running->last_step_done = 0;
        tt_mechanism_finished(&mechanism, tt_clock_now(), running);
        tt_policy_destroy(&mechanism);
        tt_mechanism_fini(&mechanism);
    }
    tt_profile_free(profile);
}

/* S4: a message needs nearly all the time to the deadline. So the batch, which symphony would hold
 * back for a minute, is decided at once: before the deadline less the delays. */
static void a_message_is_sent_ahead(void **state) {
    (void)state;
    struct tt_error why;
    struct tt_profile *profile;
    struct tt_profile_point point = {.batch = 1, .latency_ns = TT_US};
    assert_int_equal(tt_profile_new_points(&point, 1, 2, &profile, &why), TT_OK);
    struct tt_step step = {.name = "s", .profile = profile};
    struct tt_step_model model = {
        .step_count = 1, .steps = &step, .whole = profile, .slo_ns = 60 * TT_S, .max_batch = 2};
    const int64_t d_ctrl_ns = 20 * TT_S, d_data_ns = 10 * TT_S;
    struct tt_task *running = NULL;
    struct tt_carrier carrier = lone_carrier(&running);
    struct tt_mechanism mechanism;
    open_with(&mechanism, &carrier, "symphony", (struct tt_network_delay){d_ctrl_ns, d_data_ns},
              false);
    tt_mechanism_add_model(&mechanism, tt_clock_now(), 0, &model);
    tt_mechanism_add_executor(&mechanism, tt_clock_now(), 0, 0);
    int64_t now = tt_clock_now();
    /* A decision may be 10 s late, and the message of one row needs 30 s. */
    struct tt_arrival arrival = {.rows = 1, .deadline_at = now + 40 * TT_S + 100 * TT_MS};
    struct tt_request *request;
    assert_int_equal(tt_mechanism_arrived(&mechanism, now, &arrival, &request), TT_OK);
    while (!running && tt_clock_now() < arrival.deadline_at) {
        usleep(1000);
        tt_mechanism_decide(&mechanism, tt_clock_now());
    }
    assert_non_null(running);
    assert_true(running->dispatched_at <= arrival.deadline_at - d_ctrl_ns - d_data_ns);
    assert_int_equal(running->start_at, running->dispatched_at + d_ctrl_ns + d_data_ns);
    running->last_step_done = 0;
    tt_mechanism_finished(&mechanism, tt_clock_now(), running);
    tt_policy_destroy(&mechanism);
    tt_mechanism_fini(&mechanism);
    tt_profile_free(profile);
}

/* S4: the same where the delay is not given but learnt from tasks that ended. */
static void a_learnt_delay_sends_ahead(void **state) {
    (void)state;
    struct tt_error why;
    struct tt_profile *profile;
    struct tt_profile_point point = {.batch = 1, .latency_ns = TT_US};
    assert_int_equal(tt_profile_new_points(&point, 1, 2, &profile, &why), TT_OK);
    struct tt_step step = {.name = "s", .profile = profile};
    struct tt_step_model model = {
        .step_count = 1, .steps = &step, .whole = profile, .slo_ns = 60 * TT_S, .max_batch = 2};
    const int64_t travel_ns = 30 * TT_S;
    struct tt_task *running = NULL;
    struct tt_carrier carrier = lone_carrier(&running);
    struct tt_mechanism mechanism;
    open_with(&mechanism, &carrier, "symphony", (struct tt_network_delay){0, 0}, true);
    tt_mechanism_add_model(&mechanism, tt_clock_now(), 0, &model);
    tt_mechanism_add_executor(&mechanism, tt_clock_now(), 0, 0);
    /* A decision may be 10 s late. Full batches start at once, a single row waits for another until
     * 10 s before its deadline, and as long before that as messages take. */
    for (int32_t batch = 0; batch < 5; batch++) {
        int64_t now = tt_clock_now();
        struct tt_arrival arrival = {.rows = batch < 4 ? 2 : 1,
                                     .deadline_at = now + 40 * TT_S + 100 * TT_MS};
        struct tt_request *request;
        running = NULL;
        assert_int_equal(tt_mechanism_arrived(&mechanism, now, &arrival, &request), TT_OK);
        while (!running && tt_clock_now() < arrival.deadline_at) {
            usleep(1000);
            tt_mechanism_decide(&mechanism, tt_clock_now());
        }
        assert_non_null(running);
        if (batch == 4) {
            assert_true(running->dispatched_at <= arrival.deadline_at - travel_ns);
            assert_int_equal(running->start_at, running->dispatched_at + travel_ns);
        }
        running->last_step_done = 0;
        /* One after the other: of messages that are under way together one counts. */
        running->dispatched_at -= (5 - batch) * 2 * travel_ns;
        running->received_at = running->dispatched_at + travel_ns;
        tt_mechanism_finished(&mechanism, tt_clock_now(), running);
        tt_mechanism_check(&mechanism);
    }
    tt_policy_destroy(&mechanism);
    tt_mechanism_fini(&mechanism);
    tt_profile_free(profile);
}

struct counts {
    int32_t dropped, cancelled, done;
};

static void start(void *context, int64_t now, struct tt_task *task) {
    (void)context, (void)now;
    task->last_step_done = task->last_step;
}

static void count_ended(void *context, int64_t now, struct tt_request *request,
                        enum tt_ending ending, enum tt_drop_reason reason) {
    (void)now, (void)request;
    struct counts *self = context;
    assert_true(ending != TT_ENDING_DROPPED || reason == TT_DROP_QUEUE_FULL);
    self->dropped += ending == TT_ENDING_DROPPED;
    self->cancelled += ending == TT_ENDING_CANCELLED;
    self->done += ending == TT_ENDING_DONE;
}

/* Clients come and go while the threads do not advance: what finds no room is dropped, and the
 * others are served. Executors come and go, too, more often than there is room to say so. */
static void clients_outrun_the_threads(void **state) {
    (void)state;
    enum { CLIENTS = 1000, CHANGES = 3000, LIMIT = 4 };
    struct tt_error why;
    struct tt_profile *profile;
    struct tt_profile_point point = {.batch = 1, .latency_ns = TT_US};
    assert_int_equal(tt_profile_new_points(&point, 1, 2, &profile, &why), TT_OK);
    struct tt_step step = {.name = "s", .profile = profile};
    struct tt_step_model model = {
        .step_count = 1, .steps = &step, .whole = profile, .slo_ns = TT_S, .max_batch = 2};
    struct counts counts = {0};
    struct tt_carrier carrier = lone_carrier(NULL);
    carrier.context = &counts;
    carrier.start = start;
    carrier.ended = count_ended;
    struct tt_mechanism mechanism;
    struct tt_mechanism_options limits = {.model_capacity = 1,
                                          .executor_capacity = 1,
                                          .max_batch = 2,
                                          .depth = 1,
                                          .request_limit = LIMIT};
    assert_int_equal(tt_mechanism_init(&mechanism, &limits, &carrier, &why), TT_OK);
    struct tt_policy_setup setup = {.domain = &mechanism};
    struct tt_threaded_policy_options options = {
        .threads = 3, .max_batch = 2, .request_limit = LIMIT, .wake = wake};
    assert_int_equal(tt_threaded_policy_create(&mechanism, "deferred", &setup, &options, &why),
                     TT_OK);
    tt_mechanism_add_model(&mechanism, 0, 0, &model);
    for (int32_t i = 0; i < CHANGES; i++) {
        tt_mechanism_add_executor(&mechanism, 0, 0, 0);
        tt_mechanism_drain_executor(&mechanism, 0, 0);
        tt_mechanism_remove_executor(&mechanism, 0, 0);
    }
    tt_mechanism_add_executor(&mechanism, 0, 0, 0);
    struct tt_request *requests[LIMIT];
    for (int32_t i = 0; i < CLIENTS; i++) {
        const struct tt_arrival arrival = {.rows = 1, .deadline_at = TT_S};
        assert_int_equal(tt_mechanism_arrived(&mechanism, 0, &arrival, &requests[i % LIMIT]),
                         TT_OK);
        if (i < CLIENTS - LIMIT)
            tt_mechanism_cancelled(&mechanism, 0, requests[i % LIMIT]);
    }
    for (int64_t now = 0; mechanism.requests.in_use > 0; now = tt_mechanism_next_at(&mechanism)) {
        assert_true(now < 2 * TT_S);
        tt_mechanism_decide(&mechanism, now);
        for (struct tt_task *task; (task = tt_mechanism_oldest(&mechanism, 0));) {
            tt_mechanism_finished(&mechanism, now, task);
            tt_mechanism_decide(&mechanism, now);
        }
        tt_mechanism_check(&mechanism);
    }
    assert_int_equal(counts.cancelled, CLIENTS - LIMIT);
    assert_int_equal(counts.dropped, LIMIT); /* the last ones came after all room was taken */
    const struct tt_arrival arrival = {.rows = 2, .deadline_at = 4 * TT_S};
    assert_int_equal(tt_mechanism_arrived(&mechanism, 3 * TT_S, &arrival, &requests[0]), TT_OK);
    tt_mechanism_decide(&mechanism, 3 * TT_S);
    tt_mechanism_finished(&mechanism, 3 * TT_S, tt_mechanism_oldest(&mechanism, 0));
    assert_int_equal(counts.done, 1);
    tt_policy_destroy(&mechanism);
    tt_mechanism_fini(&mechanism);
    tt_profile_free(profile);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_batch_comes_back_to_a_model_that_went),
        cmocka_unit_test(a_message_is_sent_ahead),
        cmocka_unit_test(a_learnt_delay_sends_ahead),
        cmocka_unit_test(clients_outrun_the_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
