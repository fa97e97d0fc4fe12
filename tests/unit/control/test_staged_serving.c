/* threaded */
/* slow */
/* D2, D7, L1: a model in stages under a policy that preempts and merges at stage boundaries. It
 * answers every request as the whole model does, whatever other requests come and go. If requests
 * may leave early (D8), it answers each as if it ran alone. */
#include "control/control.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "profile/machine.h"
#include "standin/onnxruntime_standin.h"
#include "unit/engine/tiny_models.h"
#include "unit/seed.h"
#include "unit/serve/serving_bench.h"

#include <cmocka.h>

enum { KINDS = 24, ROUNDS = 40, BURST = 12, MAX_ROWS = 3 };

static char root[256];

struct asked {
    struct client *client;
    int32_t kind;
    struct tt_text answer; /* of the whole, or empty */
};

static struct tt_text expected[KINDS];

/* What tutti.pbtxt of the staged model says besides; the library; what is looked at meanwhile. */
static const char *staged_on = "", *runtime_path;
static int32_t executors = 2;
static void (*while_served)(void);

/* Which network is served. */
struct subject {
    struct tt_text (*make)(uint64_t seed);
    struct tt_shape row; /* dimension 0 is the request's rows */
    int32_t outputs;
};

static const struct subject resnet = {tiny_resnet, {4, {0, 3, 8, 8}}, 2};
static const struct subject mlp = {tiny_mlp, {2, {0, 16}}, 1};
static const struct subject *subject;

static struct tt_text tiny_embed_of(uint64_t seed) {
    (void)seed;
    return tiny_embed();
}

static void write_file(const char *model, const char *name, const void *bytes, size_t count) {
    char path[600];
    snprintf(path, sizeof(path), "%s/%s", root, model);
    (void)mkdir(path, 0755);
    snprintf(path, sizeof(path), "%s/%s/1", root, model);
    (void)mkdir(path, 0755);
    snprintf(path, sizeof(path), "%s/%s/%s", root, model, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

static void make_model(const char *name, const char *settings) {
    static const char config[] = "max_batch_size: 16";
    struct tt_text onnx = subject->make(3);
    write_file(name, "1/model.onnx", onnx.bytes, onnx.length);
    write_file(name, "config.pbtxt", config, strlen(config));
    write_file(name, "tutti.pbtxt", settings, strlen(settings));
    tt_text_fini(&onnx);
}

/* The head of an exit of `mlp`: "y" from what its second layer makes, for some inputs.
 */
static void add_exit(const char *name) {
    struct tiny_maker m;
    tiny_maker_begin(&m, 8);
    tiny_onnx_input(&m.model, "t7", TINY_FLOAT, TINY_DIMS(-1, 32));
    tiny_onnx_input(&m.model, "x", TINY_FLOAT, TINY_DIMS(-1, 16));
    tiny_onnx_output(&m.model, "y", TINY_FLOAT, TINY_DIMS(-1, 8));
    tiny_onnx_output(&m.model, "content", TINY_FLOAT, TINY_DIMS(-1, 1));
    tiny_op(&m, "MatMul", "y", "t7", tiny_weight(&m, TINY_DIMS(32, 8)), NULL, NULL);
    tiny_op(&m, "MatMul", "content", "x", tiny_weight(&m, TINY_DIMS(16, 1)), NULL, NULL);
    struct tt_text onnx = tiny_onnx_end(&m.model);
    write_file(name, "1/exit.onnx", onnx.bytes, onnx.length);
    tt_text_fini(&onnx);
}

static int32_t rows_of(int32_t kind) { return 1 + kind % MAX_ROWS; }

static struct tt_inference *begin(struct client *client, struct tt_served_model *model,
                                  int32_t kind) {
    struct tt_inference_shape shape = {0, subject->row};
    shape.shape.dims[0] = rows_of(kind);
    size_t size = 0, bytes;
    struct tt_inference *inference = NULL;
    struct tt_error why;
    if (tt_inference_begin(client->port, model, &shape, &size, 1, &inference, &why))
        fail_msg("%s", why.text);
    float *to = tt_inference_input(inference, 0, &bytes);
    assert_int_equal(bytes, (size_t)tt_shape_count(&shape.shape, 0) * sizeof(float));
    struct tt_prng random;
    tt_prng_init(&random, (uint64_t)kind, 7);
    for (size_t i = 0; i < bytes / sizeof(float); i++)
        to[i] = (float)(int64_t)tt_prng_next(&random) / 9.2e18f;
    return inference;
}

static void read_outputs(const struct tt_inference *inference, struct tt_text *to) {
    for (int32_t i = 0; i < subject->outputs; i++) {
        struct tt_tensor_view view;
        tt_inference_output(inference, i, &view);
        tt_text_append(to, view.bytes, view.size_bytes);
    }
}

/* The first answer to a kind is what every later one must be. */
static void done(void *context, struct tt_inference *inference, enum tt_err err, const char *why) {
    struct asked *asked = context;
    struct client *client = asked->client;
    client->waiting--;
    client->by_error[-err]++;
    if (!err) {
        struct tt_text answer;
        tt_text_init(&answer);
        read_outputs(inference, &answer);
        struct tt_text *known = &expected[asked->kind];
        if (!known->length) {
            *known = answer;
        } else {
            bool equal = answer.length == known->length &&
                         memcmp(answer.bytes, known->bytes, answer.length) == 0;
            client->ok += equal;
            client->wrong += !equal;
            tt_text_fini(&answer);
        }
    } else if (err != TT_ERR_CANCELLED) {
        snprintf(client->why, sizeof(client->why), "%s", why);
        client->errors++;
    }
    tt_inference_release(inference);
    free(asked);
}

static struct tt_inference *send(struct client *client, struct tt_served_model *model,
                                 int32_t kind) {
    struct tt_inference *inference = begin(client, model, kind);
    struct asked *asked = calloc(1, sizeof(*asked));
    assert_non_null(asked);
    *asked = (struct asked){.client = client, .kind = kind};
    client->waiting++;
    tt_inference_submit(inference, &(struct tt_inference_options){.timeout_ns = 60 * TT_S}, done,
                        asked);
    return inference;
}

static struct tt_served_model *find(struct client *client, const char *name) {
    struct tt_served_model *model = NULL;
    struct tt_error why;
    if (tt_serving_find(client->port, name, "", &model, &why))
        fail_msg("%s", why.text);
    return model;
}

static void say(void *context, enum tt_log_level level, const char *line) {
    (void)level;
    (void)context;
    print_message("%s\n", line);
}

/* `exits`: what tutti.pbtxt says of them; NULL: nothing. */
static void serve_under(const struct subject *served, const char *policy, const char *stages,
                        const char *exits) {
    char settings[512];
    subject = served;
    struct tt_error why;
    assert_int_equal(tt_machine_scratch(root, sizeof(root), &why), TT_OK);
    snprintf(settings, sizeof(settings), "policy { name: \"serial\" } %s%s%s%s",
             exits ? "stages { " : "", exits ? stages : "", exits ? " } " : "", exits ? exits : "");
    make_model("whole", settings);
    snprintf(settings, sizeof(settings),
             "slo_us: 10000000 policy { name: \"%s\" } stages { %s } %s %s", policy, stages,
             exits ? exits : "", staged_on);
    make_model("staged", settings);
    if (exits) {
        add_exit("whole");
        add_exit("staged");
    }
    const char *const roots[] = {root};
    struct tt_control_options options = {
        .repositories = roots,
        .repository_count = 1,
        .loader = {.executors = executors, .say = say, .onnxruntime = runtime_path}};
    struct tt_control *loaded = NULL;
    if (tt_control_open(&options, &loaded, &why))
        fail_msg("%s", why.text);
    struct client client;
    client_open(&client, tt_control_serving(loaded));
    struct tt_served_model *whole = find(&client, "whole"), *staged = find(&client, "staged");
    assert_true(staged->step_model.step_count >= 3);
    for (int32_t kind = 0; kind < KINDS; kind++) {
        send(&client, whole, kind);
        client_wait(&client, 0);
        assert_true(expected[kind].length > 0);
    }
    uint64_t seed = test_seed(20260131);
    struct tt_prng random;
    tt_prng_init(&random, seed, 0);
    for (int32_t round = 0; round < ROUNDS; round++) {
        int32_t burst = 1 + (int32_t)tt_prng_below(&random, BURST);
        for (int32_t i = 0; i < burst; i++) {
            struct tt_inference *inference =
                send(&client, staged, (int32_t)tt_prng_below(&random, KINDS));
            if (tt_prng_below(&random, 10) == 0)
                tt_inference_cancel(inference);
        }
        client_wait(&client, (int32_t)tt_prng_below(&random, 30));
    }
    client_wait(&client, 0);
    if (while_served)
        while_served();
    int64_t early =
        tt_counter_get(&staged->stats->left_early) + tt_counter_get(&staged->stats->skipped);
    print_message("%d equal, %d cancelled, %lld elsewhere, in %lld tasks\n", client.ok,
                  client.by_error[-TT_ERR_CANCELLED], (long long)early,
                  (long long)tt_counter_get(&staged->stats->batches));
    assert_true(exits ? early > ROUNDS / 2 && early < client.ok - ROUNDS / 2 : early == 0);
    assert_string_equal(client.why, "");
    assert_int_equal(client.wrong, 0);
    assert_true(client.ok > ROUNDS);
    const struct tt_model_stats *stats = staged->stats;
    assert_int_equal(tt_counter_get(&stats->stage_slots), staged->step_model.slots);
    assert_int_equal(tt_counter_get(&stats->stage_slots_used), 0);
    bool was_full = tt_counter_get(&stats->stage_held_back) > 0;
    if (staged->step_model.slots <= MAX_ROWS && strcmp(policy, "lazy") != 0)
        assert_true(was_full == (strcmp(policy, "diversity") == 0));
    client_close(&client);
    tt_control_close(loaded); /* which asserts that no slot is left behind */
    for (int32_t kind = 0; kind < KINDS; kind++)
        tt_text_fini(&expected[kind]);
    tt_machine_remove(root);
}

static void test_lazy_over_stages(void **state) {
    (void)state;
    serve_under(&resnet, "lazy", "per_node: true slots: 20", NULL);
}

/* A policy whose batches are stretched by new requests that catch up. */
static void test_diversity_over_stages(void **state) {
    (void)state;
    serve_under(&resnet, "diversity", "count: 4", NULL);
}

/* D2: the pool holds one row, or less than a batch: requests wait for slots, those of more rows
 * than there are for all of them; whole graphs want none. */
static void test_pool_smaller_than_a_batch(void **state) {
    (void)state;
    static const char *const policies[] = {"diversity", "lazy", "window"};
    for (size_t i = 0; i < TT_COUNT(policies); i++) {
        print_message("%s\n", policies[i]);
        serve_under(&resnet, policies[i], "count: 4 slots: 1", NULL);
        serve_under(&resnet, policies[i], "per_node: true slots: 3", NULL);
    }
}

/* D4, L1: the same on the streams of a device: results of stages and nodes stay there, in slots
 * that are adjacent or not, and lazy stops tasks between two nodes. */
static void test_on_a_device(void **state) {
    (void)state;
    static const char *const policies[] = {"diversity", "lazy", "window"};
    staged_on = "device { }";
    for (size_t i = 0; i < TT_COUNT(policies); i++) {
        print_message("%s\n", policies[i]);
        serve_under(&resnet, policies[i], "count: 4", NULL);
        serve_under(&mlp, policies[i], "per_node: true", NULL);
        serve_under(&resnet, policies[i], "per_node: true", NULL);
    }
    staged_on = "device { copies: WHOLE }";
    serve_under(&resnet, "diversity", "count: 3", NULL);
    staged_on = "";
}

/* ---- weights ---- */

static const struct onnxruntime_standin *standin;
static bool leaves_nodes;

static void find_standin(void) {
    static const char path[] = TUTTI_BUILD_DIR "/tests/standin/onnxruntime_standin.so";
    setenv("TUTTI_CUDA_DRIVER", TUTTI_BUILD_DIR "/tests/standin/cuda_standin.so", 1);
    setenv("TUTTI_STANDIN_MEMORY_MB", "256", 1);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    standin = library ? dlsym(library, "onnxruntime_standin") : NULL;
    assert_non_null(standin);
    runtime_path = path;
}

/* Each weight of the stages is on the GPU once, and both streams' sessions were offered it. */
static void look_at_weights(void) {
    int places = 0, offers = standin->offers(&places);
    print_message("%d offers of %d weights\n", offers, places);
    assert_int_equal(offers, leaves_nodes ? 0 : 2 * places);
    assert_true(leaves_nodes || places > 1);
}

/* D4: on the streams of a GPU's stand-in, which share the weights unless nodes are left to the
 * processor. */
static void test_on_a_gpu(void **state) {
    (void)state;
    find_standin();
    staged_on = "device { kind: CUDA }";
    while_served = look_at_weights;
    for (int i = 0; i < 2; i++) {
        leaves_nodes = i == 1;
        (void)standin->leave_nodes(leaves_nodes);
        serve_under(&mlp, "diversity", "count: 3", NULL);
        assert_true((standin->leave_nodes(false) > 0) == leaves_nodes);
    }
    while_served = NULL;
    staged_on = "";
    runtime_path = NULL;
}

/* A stage has one session, and so its weights once, however many streams run it. */
static void test_weights_on_the_host_device(void **state) {
    (void)state;
    int made[2];
    find_standin();
    staged_on = "device { }";
    for (int i = 0; i < 2; i++) {
        int before = standin->made();
        executors = i == 0 ? 1 : 4;
        serve_under(&mlp, "diversity", "count: 3", NULL);
        made[i] = standin->made() - before;
    }
    assert_true(made[0] > 3);
    assert_int_equal(made[0], made[1]);
    executors = 2;
    staged_on = "";
    runtime_path = NULL;
}

/* D8: some leave, or skip a stage; under policies that run stage by stage and under some that run
 * all stages in one go. */
static void test_early_exits(void **state) {
    (void)state;
    static const char *const policies[] = {"diversity", "lazy", "window", "deferred"};
    for (size_t i = 0; i < TT_COUNT(policies); i++) {
        print_message("%s\n", policies[i]);
        serve_under(&mlp, policies[i], "after: \"t7\" after: \"t15\"",
                    "exit { after_stage: 0 graph: \"exit.onnx\" condition: \"content\" }");
        serve_under(&mlp, policies[i], "after: \"t7\" after: \"t15\"",
                    "exit { after_stage: 0 graph: \"exit.onnx\" condition: \"content\" go_to: 2 "
                    "give { tensor: \"t15\" from: \"t7\" } }");
    }
}

/* D8: on devices the host learns by a copy what decides; answers are those of the processor. */
static void test_early_exits_on_devices(void **state) {
    (void)state;
    static const char *const devices[] = {"device { }", "device { copies: WHOLE }",
                                          "device { kind: CUDA }"};
    static const char *const exits[] = {
        "exit { after_stage: 0 graph: \"exit.onnx\" condition: \"content\" }",
        "exit { after_stage: 0 graph: \"exit.onnx\" condition: \"content\" go_to: 2 "
        "give { tensor: \"t15\" from: \"t7\" } }",
        "exit { after_stage: 1 graph: \"exit.onnx\" "
        "moved { tensor: \"t15\" since: \"t7\" less_than: 1 } }"};
    find_standin();
    for (size_t d = 0; d < TT_COUNT(devices); d++)
        for (size_t e = 0; e < TT_COUNT(exits); e++) {
            staged_on = devices[d];
            print_message("%s %s\n", devices[d], exits[e]);
            serve_under(&mlp, "diversity", "after: \"t7\" after: \"t15\"", exits[e]);
        }
    staged_on = "";
    runtime_path = NULL;
}

/* D2: a request without slots is not lost. No more requests wait than the limit allows; all others
 * are rejected at once. */
static void test_full_pool_says_busy(void **state) {
    (void)state;
    enum { LIMIT = 8 };
    subject = &resnet;
    struct tt_error why;
    assert_int_equal(tt_machine_scratch(root, sizeof(root), &why), TT_OK);
    make_model("staged", "policy { name: \"diversity\" } stages { count: 4 slots: 1 }");
    const char *const roots[] = {root};
    struct tt_control_options options = {
        .repositories = roots, .repository_count = 1, .loader = {.executors = 2, .say = say}};
    struct tt_control *loaded = NULL;
    struct tt_limits limits;
    tt_limits_default(&limits);
    limits.model_requests = LIMIT;
    options.limits = &limits;
    if (tt_control_open(&options, &loaded, &why))
        fail_msg("%s", why.text);
    struct client client;
    client_open(&client, tt_control_serving(loaded));
    struct tt_served_model *staged = find(&client, "staged");
    int32_t sent = 0;
    for (int32_t round = 0; round < ROUNDS; round++) {
        for (int32_t i = 0; i < 2 * BURST; i++, sent++)
            send(&client, staged, (round + i) % KINDS);
        client_wait(&client, round % 9);
    }
    client_wait(&client, 0);
    int32_t busy = client.by_error[-TT_ERR_BUSY];
    print_message("%d sent, %d equal, %d told to come again: %s\n", sent, client.ok, busy,
                  client.why);
    assert_int_equal(client.by_error[0] + busy, sent);
    assert_int_equal(client.wrong, 0);
    assert_true(client.by_error[0] > ROUNDS && busy > ROUNDS);
    assert_non_null(strstr(client.why, "has 8 requests in flight, its limit"));
    assert_true(tt_served_model_retry_after_s(staged) >= 1);
    client_close(&client);
    tt_control_close(loaded);
    for (int32_t kind = 0; kind < KINDS; kind++)
        tt_text_fini(&expected[kind]);
    tt_machine_remove(root);
}

static struct tt_inference *send_ids(struct client *client, struct tt_served_model *model,
                                     int32_t kind, int64_t id) {
    struct tt_inference_shape shape = {0, {2, {1, 2}}};
    size_t size = 0, bytes;
    struct tt_inference *inference = NULL;
    struct tt_error why;
    if (tt_inference_begin(client->port, model, &shape, &size, 1, &inference, &why))
        fail_msg("%s", why.text);
    int64_t *to = tt_inference_input(inference, 0, &bytes);
    to[0] = id;
    to[1] = kind;
    struct asked *asked = calloc(1, sizeof(*asked));
    assert_non_null(asked);
    *asked = (struct asked){.client = client, .kind = kind};
    client->waiting++;
    tt_inference_submit(inference, &(struct tt_inference_options){.timeout_ns = 60 * TT_S}, done,
                        asked);
    return inference;
}

/* D3: a stage that fails fails only whose input it was, and gives its slots and buffer pairs back:
 * many more fail than there are pairs, cancelled ones among them, and the pipeline goes on. */
static void test_failing_stages_give_back(void **state) {
    (void)state;
    static const struct subject embed = {tiny_embed_of, {2, {0, 2}}, 1};
    subject = &embed;
    struct tt_error why;
    assert_int_equal(tt_machine_scratch(root, sizeof(root), &why), TT_OK);
    make_model("whole", "policy { name: \"serial\" }");
    make_model("staged", "slo_us: 10000000 policy { name: \"diversity\" option { key: \"pairs\" "
                         "value: \"1\" } } stages { after: \"positive\" }");
    const char *const roots[] = {root};
    struct tt_control_options options = {
        .repositories = roots, .repository_count = 1, .loader = {.executors = 2, .say = say}};
    struct tt_control *loaded = NULL;
    if (tt_control_open(&options, &loaded, &why))
        fail_msg("%s", why.text);
    struct client client;
    client_open(&client, tt_control_serving(loaded));
    struct tt_served_model *whole = find(&client, "whole"), *staged = find(&client, "staged");
    for (int32_t kind = 0; kind < KINDS; kind++)
        send_ids(&client, whole, kind, kind);
    client_wait(&client, 0);
    int32_t sent = 0, bad = 0;
    for (int32_t round = 0; round < ROUNDS; round++) {
        for (int32_t i = 0; i < BURST; i++, sent++) {
            bool wrong = (round + i) % 3 == 0;
            int32_t kind = (round * 5 + i) % KINDS;
            struct tt_inference *inference = send_ids(&client, staged, kind, wrong ? 100000 : kind);
            bad += wrong;
            if ((round + i) % 7 == 0)
                tt_inference_cancel(inference);
        }
        client_wait(&client, round % 9);
    }
    client_wait(&client, 0);
    int32_t cancelled = client.by_error[-TT_ERR_CANCELLED];
    int32_t failed = client.by_error[-TT_ERR_INVALID];
    print_message("%d sent, %d equal, %d failed, %d cancelled\n", sent, client.ok, failed,
                  cancelled);
    assert_int_equal(client.wrong, 0);
    assert_int_equal(client.ok + failed + cancelled, sent);
    assert_true(failed > ROUNDS && failed <= bad);
    assert_true(client.ok > ROUNDS);
    assert_non_null(strstr(client.why, "100000"));
    client_close(&client);
    tt_control_close(loaded); /* which asserts that no slot is left behind */
    for (int32_t kind = 0; kind < KINDS; kind++)
        tt_text_fini(&expected[kind]);
    tt_machine_remove(root);
}

/* D8: what only loading can find out is said when the model is loaded. */
static void test_exit_refused(void **state) {
    (void)state;
    struct tt_error why;
    assert_int_equal(tt_machine_scratch(root, sizeof(root), &why), TT_OK);
    subject = &mlp;
    make_model("m", "stages { count: 4 } exit { after_stage: 3 graph: \"exit.onnx\" condition: "
                    "\"content\" }");
    add_exit("m");
    const char *const roots[] = {root};
    struct tt_control_options options = {
        .repositories = roots, .repository_count = 1, .loader = {.executors = 1, .say = say}};
    struct tt_control *loaded = NULL;
    assert_int_equal(tt_control_open(&options, &loaded, &why), TT_OK);
    struct client client;
    client_open(&client, tt_control_serving(loaded));
    struct tt_served_model *model = NULL;
    enum tt_err err = tt_serving_find(client.port, "m", "", &model, &why);
    assert_true(err != TT_OK);
    if (!strstr(why.text, "the exit after stage 3: the model has 4 stages"))
        fail_msg("%s", why.text);
    client_close(&client);
    tt_control_close(loaded);
    tt_machine_remove(root);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lazy_over_stages),
        cmocka_unit_test(test_diversity_over_stages),
        cmocka_unit_test(test_pool_smaller_than_a_batch),
        cmocka_unit_test(test_full_pool_says_busy),
        cmocka_unit_test(test_on_a_device),
        cmocka_unit_test(test_on_a_gpu),
        cmocka_unit_test(test_weights_on_the_host_device),
        cmocka_unit_test(test_early_exits),
        cmocka_unit_test(test_early_exits_on_devices),
        cmocka_unit_test(test_exit_refused),
        cmocka_unit_test(test_failing_stages_give_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
