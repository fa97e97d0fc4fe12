/* threaded */
/* slow */
/* C1, C3, C5, C6, C7: models of cells, served: whatever joins and leaves a batch when, every answer
 * is bit for bit what the request gets alone. That no slot is lost is asserted when a model is
 * unloaded. */
#include "serve/inference_state.h"
#include "serve/served_model.h"
#include "serve/served_model_state.h"
#include "unit/control/cell_folder.h"

#include "base/prng.h"
#include "control/control.h"
#include "engine/onnxruntime/ort_model.h"
#include "serve/inference.h"
#include "serve/model_command.h"
#include "unit/seed.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { REQUESTS = 120, MAX_NODES = 330, MAX_BYTES = 1024 };

struct ask {
    int32_t length;
    int64_t words[MAX_NODES], left[MAX_NODES], right[MAX_NODES];
    /* The answer: */
    enum tt_err err;
    char why[200];
    size_t size_bytes;
    char bytes[MAX_BYTES];
    struct client *client;
    struct tt_inference *inference; /* while it is under way */
};

struct client {
    struct tt_control *control;
    struct tt_port *port;
    int bell;
    int waiting;
};

static void wake(void *context) {
    struct client *self = context;
    uint64_t one = 1;
    if (write(self->bell, &one, sizeof(one)) != sizeof(one))
        abort();
}

static void client_open_as(struct client *self, int32_t executors, enum tt_control_mode mode) {
    struct tt_control_options options = {
        .repositories = roots,
        .repository_count = 1,
        .mode = mode,
        .loader = {.executors = executors, .say = say, .say_context = &said}};
    struct tt_error why = {{0}};
    self->waiting = 0;
    self->bell = eventfd(0, EFD_CLOEXEC);
    if (tt_control_open(&options, &self->control, &why) ||
        tt_serving_open_port(tt_control_serving(self->control), wake, self, &self->port, &why))
        fail_msg("%s", why.text);
}

static void client_open(struct client *self, int32_t executors) {
    client_open_as(self, executors, TT_CONTROL_NONE);
}

static void client_close(struct client *self) {
    tt_port_close(self->port);
    tt_control_close(self->control);
    close(self->bell);
}

static void wait_until(struct client *self, int left) {
    while (self->waiting > left) {
        struct pollfd bell = {self->bell, POLLIN, 0};
        if (poll(&bell, 1, 60000) != 1)
            abort(); /* a server that is silent for a minute is broken */
        uint64_t count;
        if (read(self->bell, &count, sizeof(count)) != sizeof(count))
            abort();
        tt_port_drain(self->port);
    }
}

static void done(void *context, struct tt_inference *inference, enum tt_err err, const char *why) {
    struct ask *ask = context;
    ask->err = err;
    ask->inference = NULL;
    snprintf(ask->why, sizeof(ask->why), "%s", why);
    if (!err) {
        struct tt_tensor_view view;
        tt_inference_output(inference, 0, &view);
        ask->size_bytes = view.size_bytes;
        if (view.size_bytes > sizeof(ask->bytes))
            abort();
        memcpy(ask->bytes, view.bytes, view.size_bytes);
    }
    ask->client->waiting--;
    tt_inference_release(inference);
}

static struct tt_served_model *find(struct client *self, const char *name) {
    struct tt_served_model *model;
    struct tt_error why = {{0}};
    if (tt_serving_find(self->port, name, "", &model, &why))
        fail_msg("%s", why.text);
    return model;
}

static void send(struct client *self, struct tt_served_model *model, struct ask *ask) {
    int32_t inputs = tt_served_model_signature(model)->input_count;
    struct tt_inference_shape shapes[3];
    size_t sizes[3] = {0}, bytes;
    const int64_t *tensors[] = {ask->words, ask->left, ask->right};
    struct tt_error why;
    for (int32_t i = 0; i < inputs; i++)
        shapes[i] = (struct tt_inference_shape){i, {2, {1, ask->length}}};
    struct tt_inference *inference;
    if (tt_inference_begin(self->port, model, shapes, sizes, inputs, &inference, &why))
        fail_msg("%s", why.text);
    for (int32_t i = 0; i < inputs; i++)
        memcpy(tt_inference_input(inference, i, &bytes), tensors[i],
               (size_t)ask->length * sizeof(int64_t));
    ask->client = self;
    ask->inference = inference;
    self->waiting++;
    tt_inference_submit(inference, &(struct tt_inference_options){0}, done, ask);
}

/* ---- random requests ---- */

static void random_sequence(struct tt_prng *random, struct ask *ask) {
    bool is_long = tt_prng_below(random, 8) == 0;
    ask->length = 1 + (int32_t)tt_prng_below(random, is_long ? 60 : 12);
    for (int32_t i = 0; i < ask->length; i++)
        ask->words[i] = (int64_t)tt_prng_below(random, WORDS);
}

/* Joins two roots, drawn each time, until there is one: any shape can come. */
static void random_tree(struct tt_prng *random, struct ask *ask) {
    int32_t leaves = 1 + (int32_t)tt_prng_below(random, 16);
    int64_t tops[64];
    int32_t count = leaves, nodes = leaves;
    for (int32_t i = 0; i < leaves; i++) {
        ask->words[i] = (int64_t)tt_prng_below(random, WORDS);
        ask->left[i] = ask->right[i] = -1;
        tops[i] = i;
    }
    while (count > 1) {
        int32_t at = (int32_t)tt_prng_below(random, (uint64_t)count - 1);
        ask->words[nodes] = 0;
        ask->left[nodes] = tops[at];
        ask->right[nodes] = tops[at + 1];
        tops[at] = nodes++;
        memmove(tops + at + 1, tops + at + 2, (size_t)(count - at - 2) * sizeof(tops[0]));
        count--;
    }
    ask->length = nodes;
}

static uint64_t seed_of_run(void) { return test_seed((uint64_t)getpid()); }

/* What each gets alone, from `alone`. */
static void ask_alone(struct client *client, const char *alone, bool trees, struct ask *asks,
                      struct tt_prng *random) {
    for (int i = 0; i < REQUESTS; i++) {
        memset(&asks[i], 0, sizeof(asks[i]));
        if (trees)
            random_tree(random, &asks[i]);
        else
            random_sequence(random, &asks[i]);
        send(client, find(client, alone), &asks[i]);
        wait_until(client, 0);
        if (asks[i].err)
            fail_msg("%s", asks[i].why);
        assert_true(asks[i].size_bytes > 0);
    }
}

/* The same requests, without what they got. */
static void ask_again(struct ask *asks, const struct ask *alone) {
    memcpy(asks, alone, REQUESTS * sizeof(*asks));
    for (int i = 0; i < REQUESTS; i++) {
        memset(asks[i].bytes, 0, sizeof(asks[i].bytes));
        asks[i].size_bytes = 0;
    }
}

static void expect_answer(const char *name, int i, const struct ask *ask, const struct ask *alone) {
    if (ask->err)
        fail_msg("%s: request %d: %s", name, i, ask->why);
    if (ask->size_bytes != alone->size_bytes ||
        memcmp(ask->bytes, alone->bytes, alone->size_bytes) != 0)
        fail_msg("%s: request %d is not what it is alone", name, i);
}

/* Bursts of random sizes, some of whose requests are cancelled on the way. */
static void expect_same(struct client *client, const char *name, const struct ask *alone,
                        struct tt_prng *random) {
    static struct ask asks[REQUESTS];
    int cancelled = 0;
    struct tt_served_model *model = find(client, name);
    ask_again(asks, alone);
    for (int i = 0; i < REQUESTS; i++) {
        send(client, model, &asks[i]);
        if (tt_prng_below(random, 6) == 0) {
            int victim = (int)tt_prng_below(random, (uint64_t)i + 1);
            if (asks[victim].inference)
                tt_inference_cancel(asks[victim].inference);
        }
        if (tt_prng_below(random, 5) == 0)
            wait_until(client, (int)tt_prng_below(random, (uint64_t)client->waiting + 1));
    }
    wait_until(client, 0);
    for (int i = 0; i < REQUESTS; i++) {
        cancelled += asks[i].err == TT_ERR_CANCELLED;
        if (asks[i].err == TT_ERR_CANCELLED)
            continue;
        expect_answer(name, i, &asks[i], &alone[i]);
    }
    assert_true(cancelled < REQUESTS / 2);
}

static void test_same_as_alone(void **state) {
    (void)state;
    static struct ask alone[REQUESTS];
    static const struct {
        const char *alone;
        bool trees;
        const char *together[11];
    } cases[] = {
        {"chain_serial",
         false,
         {"chain", "chain_window", "chain_padded", "chain_lazy", "chain_merged", "chain",
          "chain_two", "chain_padded_two", "chain_device", "chain_device_two"}},
        {"seq2seq",
         false,
         {"seq2seq", "seq2seq_window", "seq2seq_padded", "seq2seq_lazy", "seq2seq_merged",
          "seq2seq_narrow", "seq2seq_two", "seq2seq_padded_two", "seq2seq_device",
          "seq2seq_device_two", "seq2seq_device_narrow"}},
        {"tree",
         true,
         {"tree", "tree_merged", "tree_merged_all", "tree", "tree_merged", "tree_two",
          "tree_merged_two", "tree_two", "tree_device", "tree_device_two", "tree_device_merged"}},
    };
    struct tt_prng random;
    tt_prng_init(&random, seed_of_run(), 0);
    make_cell_models();
    make_cell_baselines();
    make_cell_devices();
    for (int32_t executors = 1; executors <= 2; executors++) {
        struct client client;
        client_open(&client, executors);
        for (size_t k = 0; k < TT_COUNT(cases); k++) {
            ask_alone(&client, cases[k].alone, cases[k].trees, alone, &random);
            for (size_t i = 0; i < TT_COUNT(cases[k].together) && cases[k].together[i]; i++)
                expect_same(&client, cases[k].together[i], alone, &random);
        }
        client_close(&client);
    }
}

static int64_t cells_counted(struct client *client, const char *name) {
    return tt_counter_get(&find(client, name)->stats->cells[0].cells);
}

/* A batch of cells counts for the model of its first one. So if both models have counted what their
 * own requests had, no batch had cells of both. */
static void expect_mixed(struct client *client, const char *a, const char *b,
                         const struct ask *alone) {
    enum { MOST_ROUNDS = 200 };
    static struct ask asks[REQUESTS];
    bool is_mixed = false;
    for (int round = 0; round < MOST_ROUNDS && !is_mixed; round++) {
        int64_t before = cells_counted(client, a), both = before + cells_counted(client, b);
        int64_t own = 0, all = 0;
        ask_again(asks, alone);
        for (int i = 0; i < REQUESTS; i++) {
            send(client, find(client, i % 2 ? b : a), &asks[i]);
            own += i % 2 ? 0 : asks[i].length;
            all += asks[i].length;
        }
        wait_until(client, 0);
        for (int i = 0; i < REQUESTS; i++)
            expect_answer(i % 2 ? b : a, i, &asks[i], &alone[i]);
        int64_t counted = cells_counted(client, a);
        assert_int_equal(counted + cells_counted(client, b) - both, all);
        is_mixed = counted - before != own;
    }
    assert_true(is_mixed);
}

/* C1: models with the same cell share its batches, on the CPU and on a device; then one of them
 * goes. */
static void test_models_share_batches(void **state) {
    (void)state;
    static struct ask alone[REQUESTS];
    static const char device[] = "device { memory_mb: 64 }";
    static const char *const pairs[][2] = {{"first", "second"}, {"on_device", "also_there"}};
    struct tt_prng random;
    tt_prng_init(&random, test_seed(3), 0);
    make_cells_under("chain_serial", CHAIN, "policy { name: 'serial' }", NULL);
    for (int k = 0; k < 2; k++) {
        make_cells_under(pairs[0][k], CHAIN, "", NULL);
        make_cells_under(pairs[1][k], CHAIN, device, NULL);
    }
    for (int32_t executors = 1; executors <= 2; executors++) {
        struct client client;
        client_open(&client, executors);
        ask_alone(&client, "chain_serial", false, alone, &random);
        for (size_t p = 0; p < TT_COUNT(pairs); p++)
            expect_mixed(&client, pairs[p][0], pairs[p][1], alone);
        client_close(&client);
    }
}

/* A decoder's answer ends with <eos> or is as long as it may be; both come about. */
static void test_ends(void **state) {
    (void)state;
    static struct ask asks[REQUESTS];
    struct client client;
    struct tt_prng random;
    int ended = 0, full = 0;
    tt_prng_init(&random, test_seed(1), 0);
    make_cell_models();
    client_open(&client, 2);
    ask_alone(&client, "seq2seq", false, asks, &random);
    for (int i = 0; i < REQUESTS; i++) {
        int32_t count = (int32_t)(asks[i].size_bytes / sizeof(int64_t));
        const int64_t *words = (const int64_t *)asks[i].bytes;
        for (int32_t w = 0; w < count - 1; w++)
            assert_true(words[w] != 7 && words[w] != 11 && words[w] != 13);
        bool is_end = words[count - 1] == 7 || words[count - 1] == 11 || words[count - 1] == 13;
        ended += is_end;
        full += !is_end;
        assert_true(is_end || count == asks[i].length + 6);
    }
    assert_true(ended > 0);
    assert_true(full > 0);
    client_close(&client);
}

/* A cell that fails fails only its own request. */
static void test_offender_alone(void **state) {
    (void)state;
    static struct ask alone[REQUESTS], asks[REQUESTS];
    struct client client;
    struct tt_prng random;
    tt_prng_init(&random, test_seed(2), 0);
    make_cell_models();
    make_cell_baselines();
    make_cell_devices();
    client_open(&client, 2);
    static const char *const names[] = {"chain",        "tree",           "chain_lazy",
                                        "chain_padded", "tree_merged",    "tree_merged_two",
                                        "chain_device", "tree_device_two"};
    for (size_t k = 0; k < TT_COUNT(names); k++) {
        const char *name = names[k];
        bool trees = strncmp(name, "tree", 4) == 0;
        ask_alone(&client, name, trees, alone, &random);
        ask_again(asks, alone);
        for (int i = 0; i < REQUESTS; i++) {
            if (i % 7 == 3)
                asks[i].words[tt_prng_below(&random, (uint64_t)(asks[i].length + 1) / 2)] = WORDS;
            send(&client, find(&client, name), &asks[i]);
        }
        wait_until(&client, 0);
        for (int i = 0; i < REQUESTS; i++) {
            if (i % 7 == 3) {
                assert_int_equal(asks[i].err, TT_ERR_INVALID);
                if (!strstr(asks[i].why, "indices"))
                    fail_msg("it is said: %s", asks[i].why);
                continue;
            }
            expect_answer(name, i, &asks[i], &alone[i]);
        }
    }
    client_close(&client);
}

/* C7: trees are for policies that work by cells; and those are for models that have some. */
static void test_wrong_policies(void **state) {
    (void)state;
    make_cell_models();
    make_model("whole", negate(2), NULL, "policy { name: 'cellular' }");
    struct client client;
    client_open(&client, 1);
    struct tt_served_model *model;
    struct tt_error why;
    assert_int_equal(tt_serving_find(client.port, "tree_serial", "", &model, &why),
                     TT_ERR_UNAVAILABLE);
    assert_non_null(strstr(why.text, "policy 'serial' runs requests as whole sequences"));
    assert_int_equal(tt_serving_find(client.port, "whole", "", &model, &why), TT_ERR_UNAVAILABLE);
    assert_non_null(strstr(why.text, "policy 'cellular' works by cells"));
    client_close(&client);
}

/* What is malformed is refused before it is anywhere. */
static void test_refused(void **state) {
    (void)state;
    static struct ask ask;
    make_cell_models();
    struct client client;
    client_open(&client, 1);
    ask = (struct ask){.length = 2, .left = {-1, 0}, .right = {-1, 0}};
    send(&client, find(&client, "tree"), &ask);
    wait_until(&client, 0);
    assert_int_equal(ask.err, TT_ERR_INVALID);
    assert_non_null(strstr(ask.why, "one parent"));
    ask = (struct ask){.length = 65};
    send(&client, find(&client, "chain"), &ask);
    wait_until(&client, 0);
    assert_int_equal(ask.err, TT_ERR_INVALID);
    assert_non_null(strstr(ask.why, "at most 64"));
    client_close(&client);
}

/* A cancelled request ends as cancelled, before its first cell and while its cells run. */
static void test_given_up(void **state) {
    (void)state;
    static struct ask asks[REQUESTS];
    make_cells_under(
        "tree", TREE,
        "slo_us: 1 policy { name: 'cellular' option { key: 'drop' value: 'deadline' } }", NULL);
    make_cells_under("tree_few", TREE, "",
                     "dynamic_batching { default_queue_policy { max_queue_size: 1 } }");
    struct tt_prng random;
    tt_prng_init(&random, seed_of_run(), 1);
    struct client client;
    client_open(&client, 1);
    static const char *const names[] = {"tree", "tree_few"};
    for (int m = 0; m < 2; m++) {
        struct tt_served_model *model = find(&client, names[m]);
        int32_t dropped = 0;
        for (int i = 0; i < REQUESTS; i++) {
            asks[i] = (struct ask){0};
            random_tree(&random, &asks[i]);
            send(&client, model, &asks[i]);
        }
        wait_until(&client, 0);
        for (int i = 0; i < REQUESTS; i++) {
            dropped += asks[i].err != TT_OK;
            if (asks[i].err)
                assert_non_null(strstr(asks[i].why, m == 0 ? "dropped (deadline)"
                                                           : "Exceeds maximum queue size"));
        }
        assert_true(dropped > 0);
    }
    client_close(&client);
}

static void on_command(void *context, struct tt_model_command *command) {
    struct client *self = context;
    if (command->err)
        fail_msg("%s", command->why.text);
    tt_model_command_free(command);
    self->waiting--;
}

/* Submits it; `done` counts as one that is waited for. */
static void command(struct client *self, const char *name, bool is_load) {
    struct tt_model_command *command;
    assert_int_equal(tt_model_command_new(name, is_load, &command), TT_OK);
    self->waiting++;
    tt_port_submit_command(self->port, command, on_command, self);
}

static const OrtSession *session_of(struct client *self, const char *name) {
    const struct tt_engine_model *model = find(self, name)->engine_model;
    return TT_CONTAINER_OF(model, struct tt_ort_model, model)->steps[0].session;
}

/* C1: one session for models of one cell, whatever their policies, as long as one of them is there;
 * each comes and goes while others run it. */
static void test_shared_session(void **state) {
    (void)state;
    static struct ask alone[REQUESTS], asks[REQUESTS];
    static const char *const names[] = {"chain", "chain_twin", "chain_lazy"};
    struct tt_prng random;
    struct client client;
    tt_prng_init(&random, seed_of_run(), 0);
    make_cell_models();
    make_cells("chain_twin", "lstm", recurrent_cell(1, false), NULL, (struct tt_text){0},
               CHAIN_CELLS);
    make_cells("chain_other", "lstm", recurrent_cell(6, false), NULL, (struct tt_text){0},
               CHAIN_CELLS);
    client_open_as(&client, 2, TT_CONTROL_EXPLICIT);
    command(&client, "chain", true);
    command(&client, "chain_other", true);
    wait_until(&client, 0);
    ask_alone(&client, "chain", false, alone, &random);
    for (int round = 0; round < 6; round++) {
        const char *stays = names[round % 3], *comes = names[(round + 1) % 3];
        command(&client, comes, true);
        wait_until(&client, 0);
        assert_ptr_equal(session_of(&client, stays), session_of(&client, comes));
        assert_ptr_not_equal(session_of(&client, stays), session_of(&client, "chain_other"));
        ask_again(asks, alone);
        for (int i = 0; i < REQUESTS; i++) {
            send(&client, find(&client, i % 2 ? stays : comes), &asks[i]);
            if (i == REQUESTS / 2)
                command(&client, stays, false); /* after this the other one only */
            if (i >= REQUESTS / 2)
                stays = comes;
        }
        wait_until(&client, 0);
        for (int i = 0; i < REQUESTS; i++)
            expect_answer("one of chain's twins", i, &asks[i], &alone[i]);
    }
    client_close(&client);
}

/* Closing the server waits for running cells whose requests have ended. */
static void test_closed_while_cells_run(void **state) {
    (void)state;
    static struct ask asks[REQUESTS];
    make_cell_models();
    for (int round = 0; round < 10; round++) {
        struct client client;
        client_open_as(&client, 2, TT_CONTROL_EXPLICIT);
        command(&client, "chain", true);
        wait_until(&client, 0);
        struct tt_served_model *model = find(&client, "chain");
        for (int i = 0; i < REQUESTS; i++) {
            asks[i].length = 60;
            send(&client, model, &asks[i]);
        }
        for (int i = 0; i < REQUESTS; i++)
            if (asks[i].inference)
                tt_inference_cancel(asks[i].inference);
        wait_until(&client, 0);
        client_close(&client);
    }
}

/* C6: while no request joins or leaves, no state is copied. test_cell_copies.c checks what is. */
static void test_states_stay(void **state) {
    (void)state;
    static struct ask asks[4];
    make_cell_models();
    struct client client;
    client_open(&client, 1);
    struct tt_served_model *model = find(&client, "chain");
    asks[0].length = 40;
    send(&client, model, &asks[0]);
    wait_until(&client, 0);
    const struct tt_cell_stats *stats = &model->stats->cells[0];
    assert_int_equal(tt_counter_get(&stats->cells), 40);
    assert_int_equal(tt_counter_get(&stats->tasks), 40);
    /* Alone even a word is one piece. */
    assert_int_equal(tt_counter_get(&stats->gathered_bytes), 0);
    assert_int_equal(tt_counter_get(&stats->spared_bytes), 40 * 2 * SIZE * 4);
    client_close(&client);
}

/* C6: a request keeps slots for as many tasks as its policy ever has on an executor, not for as
 * many as an executor could take. Of a GiB of states of a MiB 80 requests at once find theirs. */
static void test_large_states(void **state) {
    (void)state;
    enum { AT_ONCE = 80 };
    static struct ask asks[AT_ONCE];
    static const char cells[] =
        "cell { file: 'large.onnx' max_batch: 4 read { input: 'word' from: 'words' }"
        " state { output: 'h_out' input: 'h' } }"
        "unfold { kind: CHAIN max_length: 64 answer: 'last' }";
    make_cells("large", "large", large_cell(6), NULL, (struct tt_text){0}, cells);
    struct client client;
    client_open(&client, 1);
    struct tt_served_model *model = find(&client, "large");
    for (int i = 0; i < AT_ONCE; i++) {
        asks[i].length = 17;
        send(&client, model, &asks[i]);
    }
    wait_until(&client, 0);
    for (int i = 0; i < AT_ONCE; i++)
        if (asks[i].err)
            fail_msg("request %d: %s", i, asks[i].why);
    client_close(&client);
}

enum { FLOOD = 24, SHORT = 4, MAX_SHORTS = 4000 };

/* Sends a long sequence into a flood of short ones, which goes on until it is answered; returns how
 * many short ones were answered meanwhile. */
static int32_t flood(struct client *client, struct tt_served_model *model, struct ask *shorts) {
    static struct ask longest;
    int32_t answered = 0;
    memset(shorts, 0, FLOOD * sizeof(*shorts));
    longest = (struct ask){.length = MAX_NODES};
    send(client, model, &longest);
    while (longest.inference && answered < MAX_SHORTS) {
        for (int i = 0; i < FLOOD; i++) {
            if (shorts[i].inference)
                continue;
            answered += shorts[i].length > 0 && !shorts[i].err;
            shorts[i] = (struct ask){.length = SHORT};
            send(client, model, &shorts[i]);
        }
        wait_until(client, client->waiting - 1);
    }
    assert_null(longest.inference); /* it is not starved */
    assert_int_equal(longest.err, TT_OK);
    wait_until(client, 0);
    return answered;
}

/* C5: a sequence of 330 is answered in the midst of a flood of short ones, and these are answered
 * beside it. (Where the machine lets this thread wait, a long one may be through before the short
 * ones have been sent: then once more.) */
static void test_long_among_short(void **state) {
    (void)state;
    static struct ask shorts[FLOOD];
    static const char cells[] =
        "cell { file: 'lstm.onnx' max_batch: 8 read { input: 'word' from: 'words' }"
        " state { output: 'h_out' input: 'h' } state { output: 'c_out' input: 'c' } }"
        "unfold { kind: CHAIN max_length: 330 answer: 'h_out' }";
    make_cells("long", "lstm", recurrent_cell(1, false), NULL, (struct tt_text){0}, cells);
    struct client client;
    client_open(&client, 1);
    struct tt_served_model *model = find(&client, "long");
    int32_t beside = 0;
    for (int tried = 0; tried < 20 && beside < FLOOD; tried++)
        beside = flood(&client, model, shorts);
    assert_true(beside >= FLOOD);
    client_close(&client);
}

static int64_t cells_run(const struct tt_served_model *model) {
    int64_t sum = 0;
    for (int32_t t = 0; t < model->cells->cells->type_count; t++)
        sum += tt_counter_get(&model->stats->cells[t].cells);
    return sum;
}

/* L6: under a lazy policy new requests catch up with earlier ones, in the largest possible batches.
 * A batch splits when one of its members ends, so exactly as many cells run as if all requests ran
 * alone. */
static void test_lazy_pads_nothing(void **state) {
    (void)state;
    static struct ask alone[REQUESTS], asks[REQUESTS];
    static const char *const names[] = {"chain_lazy", "seq2seq_lazy"};
    struct tt_prng random;
    tt_prng_init(&random, seed_of_run(), 0);
    make_cell_models();
    struct client client;
    client_open(&client, 1);
    for (size_t k = 0; k < TT_COUNT(names); k++) {
        struct tt_served_model *model = find(&client, names[k]);
        const struct tt_model_stats *stats = model->stats;
        ask_alone(&client, names[k], false, alone, &random);
        assert_int_equal(tt_counter_get(&stats->batches), REQUESTS); /* no boundary without news */
        assert_int_equal(tt_counter_get(&stats->rows), REQUESTS);
        int64_t least = cells_run(model);
        ask_again(asks, alone);
        for (int i = 0; i < REQUESTS; i++)
            send(&client, model, &asks[i]);
        wait_until(&client, 0);
        for (int i = 0; i < REQUESTS; i++)
            expect_answer(names[k], i, &asks[i], &alone[i]);
        assert_int_equal(cells_run(model), 2 * least);
        assert_true(tt_counter_get(&stats->by_size[model->step_model.max_batch].count) > 0);
    }
    client_close(&client);
}

/* C7: cells of merged requests share batches, and only those of one set do. */
static void test_merged_in_sets(void **state) {
    (void)state;
    static struct ask alone[REQUESTS], asks[REQUESTS];
    struct tt_prng random;
    tt_prng_init(&random, seed_of_run(), 0);
    make_cells_under("tree", TREE, "", NULL);
    make_cells_under("tree_merged", TREE,
                     "policy { name: 'merged' option { key: 'max_requests' value: '5' } }", NULL);
    struct client client;
    client_open(&client, 1);
    ask_alone(&client, "tree", true, alone, &random);
    struct tt_served_model *model = find(&client, "tree_merged");
    const struct tt_cell_stats *leaf = &model->stats->cells[0], *inner = leaf + 1;
    ask_again(asks, alone);
    for (int i = 0; i < REQUESTS; i++)
        send(&client, model, &asks[i]);
    wait_until(&client, 0);
    for (int i = 0; i < REQUESTS; i++)
        expect_answer("tree_merged", i, &asks[i], &alone[i]);
    assert_true(tt_counter_get(&leaf->tasks) >= REQUESTS / 5);
    assert_true(tt_counter_get(&inner->cells) > 2 * tt_counter_get(&inner->tasks));
    client_close(&client);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_same_as_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_models_share_batches, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_ends, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_offender_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_lazy_pads_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_merged_in_sets, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_wrong_policies, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_given_up, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_shared_session, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_closed_while_cells_run, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_states_stay, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_large_states, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_long_among_short, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
