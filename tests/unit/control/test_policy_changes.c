/* threaded */
/* slow */
/* A model goes from each candidate's policy to another one, as policy auto changes it, while
 * clients use it. Every request is answered once, and right. */
#include "base/prng.h"
#include "policy/policy_candidates.h"
#include "unit/control/model_caller.h"
#include "unit/seed.h"

enum { CLIENTS = 2, CHANGES = 18, MAX_BATCH = 8, ANSWERS_BETWEEN = 20 };

static void load(struct caller *self) {
    if (command(self, true, NULL, NULL))
        fail_msg("%s", self->command_why);
}

/* Policies that wait for more requests do so until the objective is near; late requests count, too.
 */
static void write_policy(const struct tt_policy_candidate *candidate) {
    struct tt_text text;
    tt_text_init(&text);
    tt_text_printf(&text, "slo_ms: 50 late: SERVE policy { name: \"%s\"", candidate->policy->name);
    for (int32_t i = 0; i < candidate->option_count; i++)
        tt_text_printf(&text, " option { key: \"%s\" value: \"%s\" }", candidate->options[i].key,
                       candidate->options[i].value);
    tt_text_puts(&text, " }\n");
    write_bytes("m", "tutti.pbtxt", text.bytes, text.length);
    tt_text_fini(&text);
}

static int64_t succeeded(struct caller *master) {
    struct sum sum = {0};
    tt_serving_stats(master->port, "m", "", add_stats, &sum);
    return sum.succeeded;
}

/* Some requests run under this policy before the next one takes over. */
static void await_answers(struct caller *master) {
    int64_t until = succeeded(master) + ANSWERS_BETWEEN;
    while (succeeded(master) < until)
        caller_hear(master, 1);
}

static void changes_lose_nothing(void **state) {
    (void)state;
    struct tt_policy_candidate candidates[TT_POLICY_MAX_CANDIDATES];
    int32_t count = tt_policy_candidates(
        &(struct tt_policy_needs){.has_graphs = true, .max_batch = MAX_BATCH, .worker_limit = 4},
        candidates);
    struct caller master, callers[CLIENTS];
    pthread_t threads[CLIENTS];
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(1912), 0);
    assert_true(count > 5);
    make_model("m", tiny_onnx_unary("Neg", TINY_FLOAT, TINY_DIMS(-1, 2)), "max_batch_size: 8",
               NULL);
    struct tt_control *control = open_control(TT_CONTROL_EXPLICIT);
    caller_open(&master, control);
    write_policy(&candidates[0]);
    load(&master);
    for (int i = 0; i < CLIENTS; i++) {
        caller_open(&callers[i], control);
        assert_int_equal(pthread_create(&threads[i], NULL, client_main, &callers[i]), 0);
    }
    for (int32_t change = 0; change < CHANGES; change++) {
        /* Each once, then any. */
        int32_t next = change < count ? change : (int32_t)tt_prng_below(&prng, (uint64_t)count);
        char name[160];
        print_message("%s\n", tt_policy_candidate_text(&candidates[next], name, sizeof(name)));
        write_policy(&candidates[next]);
        load(&master);
        await_answers(&master);
    }
    tt_flag_raise(&enough);
    int64_t answered = 0;
    for (int i = 0; i < CLIENTS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(callers[i].wrong, 0);
        assert_int_equal(callers[i].refused, 0);
        answered += callers[i].ok;
        caller_close(&callers[i]);
    }
    struct sum sum = {0};
    tt_serving_stats(master.port, "m", "", add_stats, &sum);
    assert_int_equal(sum.accepted, answered);
    assert_int_equal(sum.succeeded, answered);
    assert_true(answered >= (int64_t)CHANGES * ANSWERS_BETWEEN);
    caller_close(&master);
    tt_control_close(control);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(changes_lose_nothing, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
