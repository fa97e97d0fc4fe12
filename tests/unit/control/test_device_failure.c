/* threaded */
/* A served model whose device fails. */
#include "unit/control/model_caller.h"

#include "engine/streams/stream_model.h"

static struct tt_async_device *device_of(struct caller *self) {
    struct tt_error why;
    struct tt_served_model *model;
    assert_int_equal(tt_serving_find(self->port, "m", "", &model, &why), TT_OK);
    return TT_CONTAINER_OF(model->engine_model, struct tt_stream_model, model)->device;
}

/* The device fails under load: every request is answered, the model becomes UNAVAILABLE with the
 * reason, and serves again when it is loaded again, on a device that is opened for it. */
static void test_a_device_fails_and_is_opened_again(void **state) {
    (void)state;
    make_model("m", negate(2), NULL, "device { }");
    struct tt_control *control = open_control(TT_CONTROL_EXPLICIT);
    struct caller caller;
    caller_open(&caller, control);
    assert_int_equal(command(&caller, true, NULL, NULL), TT_OK);
    for (int i = 0; i < 40; i++)
        assert_true(caller_ask(&caller, "m"));
    while (caller.ok == 0)
        caller_hear(&caller, 60000);
    tt_async_device_fail(device_of(&caller), "the bus was lost");
    while (caller.waiting)
        caller_hear(&caller, 60000);
    assert_int_equal(caller.ok + caller.failed, 40);
    while (caller_ask(&caller, "m"))
        while (caller.waiting)
            caller_hear(&caller, 60000);
    assert_int_equal(caller.wrong, 0);
    assert_int_equal(command(&caller, true, NULL, NULL), TT_OK);
    assert_true(caller_ask(&caller, "m"));
    caller.ok = 0;
    while (caller.waiting)
        caller_hear(&caller, 60000);
    assert_int_equal(caller.ok, 1);
    caller_close(&caller);
    tt_control_close(control);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_device_fails_and_is_opened_again, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
