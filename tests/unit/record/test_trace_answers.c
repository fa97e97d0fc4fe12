/* E7: requests that are answered before their batch ends: the trace attributes them to it, for its
 * readers and in its picture. */
#include "record/trace.h"

#include "base/text.h"
#include "core/early_answer.h"
#include "unit/core/mechanism_world.h"

enum { MS = 1000000 };

struct seen {
    int batches, requests;
    struct tt_trace_batch batch;
    struct tt_trace_ending ending;
};

static void on_name(void *context, int32_t number, const char *json_name) {
    (void)context, (void)number, (void)json_name;
}
static void on_batch(void *context, const struct tt_trace_batch *batch) {
    struct seen *seen = context;
    seen->batches++;
    seen->batch = *batch;
}
static void on_request(void *context, const struct tt_trace_ending *ending) {
    struct seen *seen = context;
    if (seen->requests++ == 0)
        seen->ending = *ending;
}

static struct tt_request *arrive_with(struct world *world, int64_t deadline_at, intptr_t user) {
    const struct tt_arrival arrival = {
        .rows = 1, .length = 3, .priority = 2, .deadline_at = deadline_at, .user = (void *)user};
    struct tt_request *request = NULL;
    assert_int_equal(tt_mechanism_arrived(&world->mechanism, 0, &arrival, &request), TT_OK);
    return request;
}

static void an_early_answer_belongs_to_its_batch(void **state) {
    (void)state;
    for (int all = 0; all < 2; all++) {
        struct world world;
        struct tt_trace *trace;
        struct tt_trace_tap *tap;
        struct tt_error why;
        struct tt_trace_cursor cursor = {0};
        struct seen seen = {0};
        const struct tt_trace_visitor visitor = {on_name, on_batch, on_request, &seen};
        struct tt_text picture;
        open_world(&world);
        assert_int_equal(tt_trace_new(64, &trace, &why), TT_OK);
        assert_int_equal(tt_trace_add(trace, &world.mechanism, "scripted", &tap, &why), TT_OK);
        tt_mechanism_remove_model(&world.mechanism, 0, 0); /* so that the trace knows its name */
        tt_mechanism_add_model(&world.mechanism, 0, 0, &world.models[0]);
        struct tt_request *first = arrive_with(&world, 5 * MS, 1);
        struct tt_request *second = arrive_with(&world, 50 * MS, 2);
        decide(&world, 0, run_all_steps);
        struct tt_task *task = world.started[0];
        tt_mechanism_answered(&world.mechanism, 3 * MS, first);
        if (all)
            tt_mechanism_answered(&world.mechanism, 4 * MS, second);
        task->started_at = 0;
        task->ended_at = 6 * MS;
        finish(&world, 7 * MS, 0, TT_OUTCOME_DONE, STEPS - 1);
        assert_int_equal(tt_trace_read(trace, 0, TT_NEVER, &cursor, &visitor), 0);
        assert_int_equal(seen.batches, 1);
        assert_int_equal(seen.requests, 2);
        assert_int_equal(seen.batch.slack_us, 2000); /* of the first, which was answered in time */
        assert_int_equal(seen.ending.end_at, 3 * MS);
        assert_true(seen.ending.is_done);
        tt_text_init(&picture);
        assert_int_equal(tt_trace_write(trace, 0, &picture, &why), TT_OK);
        int runs = 0;
        for (const char *at = tt_text_string(&picture); (at = strstr(at, ",\"run\":0}")); at++)
            runs++;
        assert_int_equal(runs, 2); /* both name the batch */
        tt_text_fini(&picture);
        tt_trace_leave(tap);
        close_world(&world);
        tt_trace_free(trace);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(an_early_answer_belongs_to_its_batch)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
