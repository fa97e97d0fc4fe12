/* threaded */
/* Models that are loaded anew and unloaded while clients on other threads use them. */
#include "unit/control/model_caller.h"

enum { CLIENTS = 2, ROUNDS = 12 };

static void under_load(const char *settings) {
    make_model("m", negate(2), NULL, settings);
    struct tt_control *control = open_control(TT_CONTROL_EXPLICIT);
    struct caller master, callers[CLIENTS];
    pthread_t threads[CLIENTS];
    enough = (struct tt_flag){0};
    caller_open(&master, control);
    for (int i = 0; i < CLIENTS; i++) {
        caller_open(&callers[i], control);
        assert_int_equal(pthread_create(&threads[i], NULL, client_main, &callers[i]), 0);
    }
    for (int round = 0; round < ROUNDS; round++) {
        assert_int_equal(command(&master, true, NULL, NULL), TT_OK);
        assert_int_equal(command(&master, true, "Abs", "1/model.onnx"), TT_OK);
        assert_int_equal(command(&master, true, "Neg", "2/model.onnx"), TT_OK);
        assert_int_equal(command(&master, true, "NoSuchOperator", "1/model.onnx"), TT_ERR_INVALID);
        assert_non_null(strstr(master.command_why, "load failed for model 'm'"));
        if (round % 3 == 2)
            assert_int_equal(command(&master, false, NULL, NULL), TT_OK);
    }
    assert_int_equal(command(&master, true, NULL, NULL), TT_OK);
    tt_flag_raise(&enough);
    int64_t ok = 0;
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(callers[i].wrong, 0);
        ok += callers[i].ok;
        caller_close(&callers[i]);
    }
    assert_true(ok > 0);
    /* Version 2 is unloaded, and shown as such; its counts are kept by it. */
    assert_int_equal(command(&master, true, "Neg", "2/model.onnx"), TT_OK);
    struct sum sum = {0};
    tt_serving_stats(master.port, "m", "", add_stats, &sum);
    assert_int_equal(command(&master, true, NULL, NULL), TT_OK);
    tt_serving_stats(master.port, "m", "", add_stats, &sum);
    assert_int_equal(sum.accepted, ok);
    assert_int_equal(sum.succeeded, ok);
    assert_int_equal(sum.in_flight, 0);
    caller_close(&master);
    tt_control_close(control);
}

static void test_under_load(void **state) {
    (void)state;
    under_load(NULL);
}

/* D4: the same, from and to streams of a device. */
static void test_under_load_on_a_device(void **state) {
    (void)state;
    under_load("device { memory_mb: 64 }");
}

static void test_modes_that_refuse(void **state) {
    (void)state;
    make_model("m", negate(2), NULL, NULL);
    struct tt_control *control = open_control(TT_CONTROL_NONE);
    struct caller caller;
    caller_open(&caller, control);
    assert_int_equal(command(&caller, true, NULL, NULL), TT_ERR_UNAVAILABLE);
    assert_int_equal(command(&caller, false, NULL, NULL), TT_ERR_UNAVAILABLE);
    assert_true(caller_ask(&caller, "m"));
    while (caller.waiting)
        caller_hear(&caller, 60000);
    assert_int_equal(caller.ok, 1);
    caller_close(&caller);
    tt_control_close(control);
}

/* A port that is closed waits for its commands, too. */
static void test_closing_meanwhile(void **state) {
    (void)state;
    make_model("m", negate(2), NULL, NULL);
    struct tt_control *control = open_control(TT_CONTROL_EXPLICIT);
    struct caller caller;
    caller_open(&caller, control);
    for (int i = 0; i < 5; i++) {
        struct tt_model_command *one;
        assert_int_equal(tt_model_command_new("m", i % 2 == 0, &one), TT_OK);
        caller.waiting++;
        tt_port_submit_command(caller.port, one, on_command, &caller);
    }
    caller_close(&caller);
    assert_int_equal(caller.waiting, 0);
    assert_int_equal(caller.command_err, TT_OK);
    tt_control_close(control);
}

static void on_end(void *context, struct tt_inference *inference, enum tt_err err,
                   const char *why) {
    (void)context;
    (void)why;
    tt_assert(err == TT_ERR_CANCELLED);
    tt_inference_release(inference);
}

/* A request that no other joins waits longer than any test runs. */
static struct tt_inference *ask_and_wait(struct caller *self, struct tt_model_stats **out_stats) {
    struct tt_error why;
    struct tt_served_model *model;
    struct tt_inference_shape shape = {0, {2, {1, 2}}};
    struct tt_inference *inference;
    size_t none = 0;
    assert_int_equal(tt_serving_find(self->port, "m", "", &model, &why), TT_OK);
    *out_stats = tt_model_stats_ref(model->stats);
    assert_int_equal(tt_inference_begin(self->port, model, &shape, &none, 1, &inference, &why),
                     TT_OK);
    tt_inference_submit(inference, &(struct tt_inference_options){0}, on_end, NULL);
    return inference;
}

/* Until so many wait; since when the oldest does. */
static int64_t oldest_of(const struct tt_model_stats *stats, int64_t count) {
    while (tt_counter_get(&stats->waiting) != count)
        usleep(1000);
    return tt_counter_get(&stats->waiting_since);
}

/* Requests that wait for the draining version and for the new one are in one queue. */
static void test_one_line_while_loaded_anew(void **state) {
    (void)state;
    static const char settings[] =
        "policy { name: \"diversity\" option { key: \"window\" value: \"1000s\" } }\n";
    make_model("m", negate(2), "max_batch_size: 8", settings);
    struct tt_control *control = open_control(TT_CONTROL_EXPLICIT);
    struct caller caller;
    caller_open(&caller, control);
    assert_int_equal(command(&caller, true, NULL, NULL), TT_OK);
    struct tt_model_stats *stats, *same;
    struct tt_inference *first = ask_and_wait(&caller, &stats);
    int64_t first_at = oldest_of(stats, 1);
    assert_true(first_at > 0);
    write_bytes("m", "tutti.pbtxt", settings, strlen(settings) - 1); /* it has changed */
    assert_int_equal(command(&caller, true, NULL, NULL), TT_OK);
    struct tt_inference *second = ask_and_wait(&caller, &same);
    assert_ptr_equal(stats, same);
    assert_ptr_not_equal(first->model, second->model);
    assert_int_equal(oldest_of(stats, 2), first_at);
    tt_inference_cancel(first);
    int64_t second_at = oldest_of(stats, 1);
    assert_true(second_at > first_at);
    tt_inference_cancel(second);
    assert_int_equal(oldest_of(stats, 0), 0);
    caller_close(&caller);
    tt_control_close(control);
    tt_model_stats_unref(stats);
    tt_model_stats_unref(same);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_under_load, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_under_load_on_a_device, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_modes_that_refuse, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_closing_meanwhile, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_one_line_while_loaded_anew, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
