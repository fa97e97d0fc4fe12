/* threaded */
/* C2: requests to a model with an unfold plug-in, which runs on a thread of its own: they answer as
 * without the thread, whichever clients leave, and a plug-in that does not return takes only its
 * own model with it. */
#include "serve/served_model.h"
#include "serve/served_model_state.h"
#include "unit/control/cell_folder.h"

#include "base/prng.h"
#include "control/control.h"
#include "serve/inference.h"
#include "unit/seed.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { REQUESTS = 200, LENGTH = 5, HANGS = 666, MAX_BYTES = 256 };

struct ask {
    int64_t words[LENGTH];
    enum tt_err err;
    bool is_done;
    char why[300];
    size_t size_bytes;
    char bytes[MAX_BYTES];
    struct tt_inference *inference; /* while it is under way */
};

static struct tt_control *control;
static struct tt_port *port;
static int bell, waiting;
static char go[128]; /* the plug-in returns when this file exists */

static void wake(void *context) {
    uint64_t one = 1;
    (void)context;
    if (write(bell, &one, sizeof(one)) != sizeof(one))
        abort();
}

static void open_server(void) {
    struct tt_control_options options = {.repositories = roots,
                                         .repository_count = 1,
                                         .mode = TT_CONTROL_NONE,
                                         .loader = {.executors = 2, .say = say}};
    options.loader.say_context = &said;
    struct tt_error why = {{0}};
    waiting = 0;
    bell = eventfd(0, EFD_CLOEXEC);
    if (tt_control_open(&options, &control, &why) ||
        tt_serving_open_port(tt_control_serving(control), wake, NULL, &port, &why))
        fail_msg("%s", why.text);
}

static void close_server(void) {
    tt_port_close(port);
    tt_control_close(control);
    close(bell);
}

static void wait_until(int left) {
    while (waiting > left) {
        struct pollfd poll_for = {bell, POLLIN, 0};
        if (poll(&poll_for, 1, 60000) != 1)
            abort(); /* a server that is silent for a minute is broken */
        uint64_t count;
        if (read(bell, &count, sizeof(count)) != sizeof(count))
            abort();
        tt_port_drain(port);
    }
}

static void done(void *context, struct tt_inference *inference, enum tt_err err, const char *why) {
    struct ask *ask = context;
    assert_false(ask->is_done); /* once */
    ask->is_done = true;
    ask->err = err;
    ask->inference = NULL;
    snprintf(ask->why, sizeof(ask->why), "%s", why);
    if (!err) {
        struct tt_tensor_view view;
        tt_inference_output(inference, 0, &view);
        ask->size_bytes = view.size_bytes;
        assert_true(view.size_bytes <= sizeof(ask->bytes));
        memcpy(ask->bytes, view.bytes, view.size_bytes);
    }
    waiting--;
    tt_inference_release(inference);
}

static void send(const char *name, struct ask *ask) {
    struct tt_served_model *model;
    struct tt_error why = {{0}};
    struct tt_inference_shape shape = {0, {2, {1, LENGTH}}};
    size_t size = 0, bytes;
    if (tt_serving_find(port, name, "", &model, &why) ||
        tt_inference_begin(port, model, &shape, &size, 1, &ask->inference, &why))
        fail_msg("%s", why.text);
    memcpy(tt_inference_input(ask->inference, 0, &bytes), ask->words, sizeof(ask->words));
    ask->is_done = false;
    waiting++;
    tt_inference_submit(ask->inference, &(struct tt_inference_options){0}, done, ask);
}

static int make_models(void **state) {
    static const char cell[] =
        "cell { file: 'lstm.onnx' max_batch: 8 read { input: 'word' from: 'words' }"
        " state { output: 'h_out' input: 'h' } state { output: 'c_out' input: 'c' } }";
    char text[1024];
    if (set_up(state))
        return -1;
    snprintf(go, sizeof(go), "%s/go", root);
    make_cells_under("chain", CHAIN, "", NULL);
    static const struct {
        const char *name;
        int max_run_ms; /* 100: nothing but the request that hangs goes there */
    } models[] = {{"plugin", 60000}, {"stuck", 100}};
    for (size_t i = 0; i < TT_COUNT(models); i++) {
        snprintf(text, sizeof(text),
                 "max_run_ms: %d %s unfold { kind: PLUGIN max_length: 64 answer: 'h_out' "
                 "time_limit_us: 2000000000 plugin: '%s/tests/plugins/faulty.so' "
                 "parameter: 'hang %s' }",
                 models[i].max_run_ms, cell, TUTTI_BUILD_DIR, go);
        make_cells(models[i].name, "lstm", recurrent_cell(1, false), NULL, (struct tt_text){0},
                   text);
    }
    return 0;
}

static void draw(struct tt_prng *prng, struct ask *ask) {
    for (int32_t i = 0; i < LENGTH; i++)
        ask->words[i] = (int64_t)tt_prng_below(prng, WORDS);
}

static void test_answers_as_without(void **state) {
    (void)state;
    static struct ask direct[REQUESTS], asks[REQUESTS];
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(31), 0);
    open_server();
    for (int i = 0; i < REQUESTS; i++) {
        draw(&prng, &direct[i]);
        memcpy(asks[i].words, direct[i].words, sizeof(asks[i].words));
        send("chain", &direct[i]);
    }
    wait_until(0);
    int cancelled = 0;
    for (int i = 0; i < REQUESTS; i++) {
        send("plugin", &asks[i]);
        uint64_t chance = tt_prng_below(&prng, 10);
        if (chance == 0) { /* in the plug-in, behind it, or ended */
            tt_port_drain(port);
            int which = i - (int)tt_prng_below(&prng, 3);
            if (which >= 0 && asks[which].inference)
                tt_inference_cancel(asks[which].inference);
        }
    }
    wait_until(0);
    for (int i = 0; i < REQUESTS; i++) {
        cancelled += asks[i].err == TT_ERR_CANCELLED;
        if (asks[i].err == TT_ERR_CANCELLED)
            continue;
        assert_int_equal(asks[i].err, TT_OK);
        assert_int_equal(asks[i].size_bytes, direct[i].size_bytes);
        assert_memory_equal(asks[i].bytes, direct[i].bytes, direct[i].size_bytes);
    }
    print_message("%d of %d cancelled\n", cancelled, REQUESTS);
    assert_true(cancelled < REQUESTS / 2);
    close_server();
}

static void test_one_that_does_not_return(void **state) {
    (void)state;
    struct ask stuck = {.words = {HANGS}}, behind[3] = {0}, good[20] = {0};
    open_server();
    struct tt_serving *serving = tt_control_serving(control);
    send("stuck", &stuck);
    for (int i = 0; i < 3; i++)
        send("stuck", &behind[i]);
    tt_inference_cancel(behind[2].inference);
    for (int i = 0; i < 20; i++)
        send("chain", &good[i]);
    wait_until(0);
    assert_int_equal(stuck.err, TT_ERR_TIMEOUT);
    assert_non_null(strstr(stuck.why, "its unfold plug-in did not return within 100 ms"));
    for (int i = 0; i < 3; i++)
        assert_int_equal(behind[i].err, TT_ERR_UNAVAILABLE);
    for (int i = 0; i < 20; i++)
        assert_int_equal(good[i].err, TT_OK);
    assert_int_equal(tt_serving_lost_runs(serving), 1);
    struct tt_served_model *model;
    struct tt_error why;
    while (tt_serving_find(port, "stuck", "", &model, &why) == TT_OK) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL); /* until the catalogue says it */
        tt_port_drain(port);
    }
    assert_non_null(strstr(why.text, "its unfold plug-in did not return within 100 ms"));
    FILE *file = fopen(go, "w");
    assert_non_null(file);
    fclose(file);
    while (tt_serving_lost_runs(serving) != 0)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    send("chain", &good[0]);
    wait_until(0);
    assert_int_equal(good[0].err, TT_OK);
    close_server(); /* all came back: nothing is left behind */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_answers_as_without, make_models, tear_down),
        cmocka_unit_test_setup_teardown(test_one_that_does_not_return, make_models, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
