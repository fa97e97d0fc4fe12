/* slow */
/* C1 - C7, recorded: what `cellular` decided of chains, sequences to sequences and trees replays to
 * the same decisions. A changed decision and impossible cells are reported. What other policies
 * would have done equals what they do in the recorded world. */
#include "base/instant.h"
#include "base/prng.h"
#include "base/text.h"
#include "lab/replay/replay.h"
#include "lab/run/scenario_run.h"
#include "sim/simulation.h"
#include "unit/lab/recorded_policy.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static char path[64];

/* Of so many worlds, those that a run draws: sanitizers make each up to 30 times as long. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define WORLDS(count) (((count) + 3) / 4)
#else
#define WORLDS(count) (count)
#endif

enum { CHAIN, PAIR, TREE, MODELS, MAX_REQUESTS = 2000, LONGEST = 20 };

struct world {
    struct tt_prng prng;
    const char *policy;
    const struct tt_option *options;
    int32_t option_count;
    struct tt_recorder *recorder;
    struct tt_profile *cell, *slow, *whole;
    struct tt_step steps[MODELS][2];
    struct tt_step_model models[MODELS];
    int32_t model_count;
    int32_t quantiles[TT_QUANTILES];
    struct tt_queue_rule rule;
    bool cancels;
    int64_t at, left, arrived;
    int64_t ends[MAX_REQUESTS]; /* since the first arrival, by number; -1: it was not answered */
    int64_t first_at;
};

static int32_t draw(struct world *w, int32_t below) {
    return (int32_t)tt_prng_below(&w->prng, (uint64_t)below);
}

static bool next(void *context, struct tt_sim_arrival *out) {
    struct world *w = context;
    if (w->left-- == 0)
        return false;
    if (draw(w, 3) > 0)
        w->at += 1 + draw(w, 500) * TT_US;
    if (w->arrived++ == 0)
        w->first_at = w->at;
    *out = (struct tt_sim_arrival){.at = w->at,
                                   .deadline_at = w->at + 2 * TT_MS + draw(w, 100) * TT_MS,
                                   .cancel_at = TT_NEVER,
                                   .model = draw(w, w->model_count),
                                   .rows = 1,
                                   .length = 1 + draw(w, 12),
                                   .output_length = 1 + draw(w, LONGEST),
                                   .exit_step = -1};
    int64_t cancel_at = w->at + draw(w, 3 * (int32_t)TT_MS);
    if (draw(w, 5) == 0 && w->cancels)
        out->cancel_at = cancel_at;
    return true;
}

static void note_end(void *context, const struct tt_sim_ending *ending) {
    struct world *w = context;
    assert_true(ending->number < MAX_REQUESTS);
    w->ends[ending->number] =
        ending->ending == TT_ENDING_DONE ? ending->ended_at - w->first_at : -1;
}

static enum tt_err make_policy(void *context, struct tt_mechanism *mechanism,
                               struct tt_error *why) {
    struct world *w = context;
    struct tt_policy_setup setup = {
        .domain = mechanism, .options = w->options, .option_count = w->option_count};
    return recorded_policy_create(mechanism, w->policy, &setup, w->recorder, why);
}

static void make_models(struct world *w) {
    struct tt_error why;
    assert_int_equal(tt_profile_new_linear(3 * TT_US, 40 * TT_US, 16, &w->cell, &why), TT_OK);
    assert_int_equal(tt_profile_new_linear(5 * TT_US, 60 * TT_US, 8, &w->slow, &why), TT_OK);
    assert_int_equal(tt_profile_new_linear(50 * TT_US, 500 * TT_US, 16, &w->whole, &why), TT_OK);
    static const char *const names[] = {"chain", "pair", "tree"};
    w->steps[CHAIN][0] =
        (struct tt_step){.name = "cell", .profile = w->cell, .kind = TT_STEP_ENCODER};
    w->steps[PAIR][0] =
        (struct tt_step){.name = "encode", .profile = w->cell, .kind = TT_STEP_ENCODER};
    w->steps[PAIR][1] = (struct tt_step){
        .name = "decode", .profile = w->slow, .kind = TT_STEP_DECODER, .min_rows = 2};
    w->steps[TREE][0] = (struct tt_step){.name = "leaf", .profile = w->cell};
    w->steps[TREE][1] = (struct tt_step){.name = "node", .profile = w->slow};
    for (int32_t q = 0; q < TT_QUANTILES; q++)
        w->quantiles[q] = LONGEST;
    for (int32_t m = 0; m < MODELS; m++)
        w->models[m] = (struct tt_step_model){.name = names[m],
                                              .step_count = m == CHAIN ? 1 : 2,
                                              .steps = w->steps[m],
                                              .whole = w->whole,
                                              .slo_ns = 50 * TT_MS,
                                              .max_batch = m == CHAIN ? 16 : 8,
                                              .output_quantiles = m == PAIR ? w->quantiles : NULL};
}

/* The world of the seed under the policy; recorded where there is a recorder. */
static void run(struct world *w, uint64_t seed, int64_t requests) {
    tt_prng_init(&w->prng, seed, 0);
    w->left = requests;
    w->at = w->arrived = 0;
    struct tt_sim_model models[MODELS];
    for (int32_t m = 0; m < MODELS; m++)
        models[m] = (struct tt_sim_model){.step_model = &w->models[m],
                                          .tree = m == TREE ? TT_TREE_RANDOM : TT_TREE_NONE};
    struct tt_sim_device devices[2] = {{.executors = 1}, {.executors = 1}};
    struct tt_sim_options options = {.models = models,
                                     .model_count = w->model_count,
                                     .devices = devices,
                                     .device_count = 2,
                                     .depth = 4,
                                     .request_limit = MAX_REQUESTS, /* a replay's room */
                                     .seed = seed,
                                     .source = {.context = w, .next = next},
                                     .observer = {.context = w, .ended = note_end},
                                     .create_policy = make_policy,
                                     .create_context = w};
    struct tt_simulation *simulation;
    struct tt_error why;
    enum tt_err err = tt_simulation_new(&options, &simulation, &why);
    if (err)
        print_message("%s\n", why.text);
    assert_int_equal(err, TT_OK);
    while (tt_simulation_run(simulation, 1 << 20)) {
    }
    tt_simulation_free(simulation);
}

static void world_init(struct world *w, int32_t model_count, const char *policy) {
    *w = (struct world){.model_count = model_count, .policy = policy, .cancels = true};
    make_models(w);
}

static void world_fini(struct world *w) {
    tt_profile_free(w->cell);
    tt_profile_free(w->slow);
    tt_profile_free(w->whole);
}

/* Records the world, and leaves the file's bytes in `bytes`. */
static void record(struct world *w, uint64_t seed, int64_t requests, struct tt_text *bytes) {
    struct tt_recorder_options options = {.path = path, .ring_bytes = 16 << 20, .program = "test"};
    struct tt_error why;
    assert_int_equal(tt_recorder_open(&options, &w->recorder, &why), TT_OK);
    run(w, seed, requests);
    assert_int_equal(tt_recorder_close(w->recorder, &why), TT_OK);
    w->recorder = NULL;
    tt_text_init(bytes);
    assert_int_equal(tt_text_read_file(path, 1 << 30, bytes, &why), TT_OK);
}

static void open_bytes(const struct tt_text *bytes, struct tt_recording *recording) {
    struct tt_error why;
    assert_int_equal(tt_recording_open_memory(bytes->bytes, bytes->length, "f", recording, &why),
                     TT_OK);
}

static void replay(const struct tt_recording *recording, struct tt_replay *out) {
    struct tt_error why;
    enum tt_err err = tt_replay_run(recording, 0, true, NULL, out, &why);
    if (err)
        print_message("%s\n", why.text);
    assert_int_equal(err, TT_OK);
    if (out->differs)
        print_message("%s\n", out->difference.text);
    assert_false(out->differs);
}

/* ---- the same decisions ---- */

static void cells_replay(void **state) {
    (void)state;
    static const struct {
        struct tt_option options[3];
        int32_t count;
        bool rules;
    } variants[] = {{{{0}}, 0, false},
                    {{{"max_tasks", "2"}, {"ahead", "1"}}, 2, false},
                    {{{"choose", "slack"}, {"drop", "deadline"}}, 2, false},
                    {{{"min_batch", "3"}}, 1, true},
                    {{{"max_tasks", "1"}, {"drop", "deadline"}}, 2, true}};
    for (size_t i = 0; i < TT_COUNT(variants); i++)
        for (uint64_t seed = test_seed(1), end = seed + WORLDS(6); seed < end; seed++) {
            struct world w;
            world_init(&w, MODELS, "cellular");
            w.options = variants[i].options;
            w.option_count = variants[i].count;
            w.rule = (struct tt_queue_rule){
                .max_count = 3, .delay_late = seed % 2, .late_every = seed % 4 == 3 ? 4 : 0};
            for (int32_t m = 0; variants[i].rules && m < MODELS; m++) {
                w.models[m].rules = &w.rule;
                w.models[m].rule_count = 1;
            }
            struct tt_text bytes;
            record(&w, seed, 600, &bytes);
            struct tt_recording recording;
            struct tt_replay made;
            open_bytes(&bytes, &recording);
            replay(&recording, &made);
            assert_int_equal(made.arrival_count, 600);
            assert_true(recording.complete && made.lost == 0);
            assert_true(made.decisions > 600);
            int64_t answered = 0;
            for (int32_t r = 0; r < 600; r++)
                answered += w.ends[r] >= 0;
            struct tt_measure_model total;
            tt_measure_total(&made.measure, &total);
            assert_int_equal(total.ok + total.late, answered);
            tt_measure_model_fini(&total);
            tt_replay_fini(&made);
            tt_recording_close(&recording);
            tt_text_fini(&bytes);
            world_fini(&w);
        }
}

/* ---- what others would have done ---- */

static void compare_end(void *context, const struct tt_sim_ending *ending) {
    const struct world *w = context;
    int64_t was = w->ends[ending->number];
    int64_t is = ending->ending == TT_ENDING_DONE ? ending->ended_at : -1;
    if (was != is)
        print_message("request %lld ended at %lld, simulated at %lld\n", (long long)ending->number,
                      (long long)was, (long long)is);
    assert_int_equal(was, is);
}

/* Every request ends when it ended in `w`. */
static void simulates_as(struct tt_replay *made, const struct world *w) {
    struct tt_scenario scenario;
    struct tt_scenario_result result;
    struct tt_error why;
    enum tt_err err =
        tt_replay_scenario(made, w->policy, w->options, w->option_count, &scenario, &why);
    if (err)
        print_message("%s\n", why.text);
    assert_int_equal(err, TT_OK);
    struct tt_scenario_outputs outputs = {.also = {.context = (void *)w, .ended = compare_end}};
    assert_int_equal(tt_scenario_run(&scenario, true, &outputs, NULL, &result, &why), TT_OK);
    tt_measure_fini(&result.measure);
    tt_scenario_fini(&scenario);
}

static void the_recorded_policy_does_the_same(void **state) {
    (void)state;
    for (uint64_t seed = test_seed(20), end = seed + WORLDS(10); seed < end; seed++) {
        struct world w;
        struct tt_text bytes;
        struct tt_recording recording;
        struct tt_replay made;
        world_init(&w, MODELS, "cellular");
        record(&w, seed, 500, &bytes);
        open_bytes(&bytes, &recording);
        replay(&recording, &made);
        assert_true(made.unknown_ends > 0);
        simulates_as(&made, &w);
        tt_replay_fini(&made);
        tt_recording_close(&recording);
        tt_text_fini(&bytes);
        world_fini(&w);
    }
}

/* Chains and pairs as whole sequences: as if the world itself had been under that policy. */
static void whole_sequences_end_where_they_did(void **state) {
    (void)state;
    static const struct tt_option one_task[] = {{"max_tasks", "1"}};
    static const struct {
        const char *policy;
        const struct tt_option *options;
        int32_t count;
    } others[] = {{"padded", NULL, 0}, {"lazy", NULL, 0},   {"serial", NULL, 0},
                  {"window", NULL, 0}, {"merged", NULL, 0}, {"cellular", one_task, 1}};
    for (uint64_t seed = test_seed(40), end = seed + WORLDS(4); seed < end; seed++) {
        struct world w;
        struct tt_text bytes;
        struct tt_recording recording;
        struct tt_replay made;
        world_init(&w, TREE, "cellular");
        w.cancels = false;
        record(&w, seed, 300, &bytes);
        open_bytes(&bytes, &recording);
        replay(&recording, &made);
        assert_int_equal(made.unknown_ends, 0);
        for (size_t i = 0; i < TT_COUNT(others); i++) {
            print_message("seed %d, %s\n", (int)seed, others[i].policy);
            w.policy = others[i].policy;
            w.options = others[i].options;
            w.option_count = others[i].count;
            for (int32_t m = 0; m < TREE; m++) /* what a batch of whole sequences may be */
                w.models[m].max_batch = m == PAIR ? 8 : 16;
            run(&w, seed, 300);
            simulates_as(&made, &w);
        }
        tt_replay_fini(&made);
        tt_recording_close(&recording);
        tt_text_fini(&bytes);
        world_fini(&w);
    }
}

static void trees_are_for_cells(void **state) {
    (void)state;
    struct world w;
    struct tt_text bytes;
    struct tt_recording recording;
    struct tt_replay made;
    world_init(&w, MODELS, "cellular");
    record(&w, 1, 50, &bytes);
    open_bytes(&bytes, &recording);
    replay(&recording, &made);
    struct tt_scenario scenario;
    struct tt_error why;
    assert_int_equal(tt_replay_scenario(&made, "padded", NULL, 0, &scenario, &why),
                     TT_ERR_UNSUPPORTED);
    assert_non_null(strstr(why.text, "'tree'"));
    tt_replay_fini(&made);
    tt_recording_close(&recording);
    tt_text_fini(&bytes);
    world_fini(&w);
}

/* ---- files that are not as they should be ---- */

/* Puts the checksum of the file's blocks right. */
static void mend(struct tt_text *bytes) {
    uint8_t *at = (uint8_t *)bytes->bytes + TT_RECORDING_HEADER_BYTES;
    const uint8_t *end = (const uint8_t *)bytes->bytes + bytes->length;
    while (at < end) {
        size_t payload = tt_get_u32(at + 8);
        tt_put_u32(at + 12, tt_recording_crc(at, at + TT_RECORDING_BLOCK_BYTES, payload));
        at += TT_RECORDING_BLOCK_BYTES + payload;
    }
}

/* True if the byte belongs to the head of a block. How many blocks there are depends on when the
 * recorder's thread wrote. */
static bool in_a_head(const struct tt_text *bytes, const uint8_t *byte) {
    const uint8_t *at = (const uint8_t *)bytes->bytes + TT_RECORDING_HEADER_BYTES;
    while (byte >= at + TT_RECORDING_BLOCK_BYTES + tt_get_u32(at + 8))
        at += TT_RECORDING_BLOCK_BYTES + tt_get_u32(at + 8);
    return byte < at + TT_RECORDING_BLOCK_BYTES;
}

/* The last byte of every task of cells, one after the other, names another request or subgraph. */
static void a_changed_decision_is_told(void **state) {
    (void)state;
    struct world w;
    struct tt_text bytes;
    world_init(&w, MODELS, "cellular");
    record(&w, 5, 120, &bytes);
    struct tt_recording recording;
    struct tt_recording_cursor cursor;
    struct tt_error why;
    const struct tt_recorded_event *event;
    open_bytes(&bytes, &recording);
    assert_int_equal(tt_recording_cursor_init(&cursor, &recording, 0, &why), TT_OK);
    int32_t changed = 0, told = 0;
    for (;;) {
        assert_int_equal(tt_recording_next(&cursor, &event, &why), TT_OK);
        if (!event)
            break;
        if (event->kind != TT_RECORD_RUN)
            continue;
        uint8_t *last = (uint8_t *)cursor.at - 1;
        *last ^= 2;
        mend(&bytes);
        struct tt_recording lying;
        struct tt_replay made;
        open_bytes(&bytes, &lying);
        enum tt_err err = tt_replay_run(&lying, 0, false, NULL, &made, &why);
        assert_true(err || made.differs);
        if (!err) {
            told += strstr(made.difference.text, "(request/subgraph)") != NULL;
            tt_replay_fini(&made);
        }
        tt_recording_close(&lying);
        *last ^= 2;
        mend(&bytes);
        changed++;
    }
    assert_true(changed > 100 && told > changed / 2);
    tt_recording_cursor_fini(&cursor);
    tt_recording_close(&recording);
    tt_text_fini(&bytes);
    world_fini(&w);
}

/* Any byte may be any other: an error with its place, a difference, or a story; never worse. */
static void lies_are_survived(void **state) {
    (void)state;
    uint64_t seed = test_seed(3);
    struct world w;
    struct tt_text bytes;
    world_init(&w, MODELS, "cellular");
    record(&w, seed, 40, &bytes);
    int64_t refused = 0, differ = 0;
    for (int32_t i = 0; i < 3000; i++) {
        size_t from = TT_RECORDING_HEADER_BYTES + TT_RECORDING_BLOCK_BYTES;
        size_t count = bytes.length - from - TT_RECORDING_BLOCK_BYTES;
        uint8_t *at = (uint8_t *)bytes.bytes + from + tt_prng_below(&w.prng, count), was = *at;
        if (in_a_head(&bytes, at))
            continue;
        uint64_t now = i % 2 ? tt_prng_below(&w.prng, 256) : was ^ (UINT64_C(1) << i / 2 % 8);
        *at = (uint8_t)now;
        mend(&bytes);
        struct tt_recording recording;
        struct tt_replay made;
        struct tt_error why;
        if (tt_recording_open_memory(bytes.bytes, bytes.length, "f", &recording, &why) == TT_OK) {
            enum tt_err err = tt_replay_run(&recording, 0, true, NULL, &made, &why);
            if (err) {
                assert_true(err == TT_ERR_INVALID || err == TT_ERR_NOT_FOUND); /* a policy */
                refused += strstr(why.text, "offset") != NULL;
            } else {
                differ += made.differs;
                struct tt_scenario scenario;
                struct tt_scenario_result result;
                if (tt_replay_scenario(&made, NULL, NULL, 0, &scenario, &why) == TT_OK) {
                    if (tt_scenario_run(&scenario, true, NULL, NULL, &result, &why) == TT_OK)
                        tt_measure_fini(&result.measure);
                    tt_scenario_fini(&scenario);
                }
                tt_replay_fini(&made);
            }
            tt_recording_close(&recording);
        }
        *at = was;
    }
    print_message("%lld refused, %lld differ\n", (long long)refused, (long long)differ);
    assert_true(refused > 300 && differ > 300);
    tt_text_fini(&bytes);
    world_fini(&w);
}

/* ---- the cells of a request ---- */

static enum tt_err get(const void *bytes, size_t count, const char **out_what) {
    struct tt_record_cells cells = {0};
    const uint8_t *at = bytes;
    enum tt_err err = tt_record_cells_get(&cells, &at, at + count, out_what);
    tt_record_cells_fini(&cells);
    return err;
}

static void they_take_few_bytes(void **state) {
    (void)state;
    uint8_t bytes[200];
    struct tt_cell_spec chain = {.repeat = 100};
    assert_int_equal(tt_record_cells_put(bytes, &chain, 1) - bytes, 1 + 2);
    int32_t first = 0, both[] = {0, 1};
    struct tt_cell_spec pair[] = {{.repeat = 100},
                                  {.first_step = 1,
                                   .last_step = 1,
                                   .repeat = 110,
                                   .open_ended = true,
                                   .source_count = 1,
                                   .sources = &first}};
    assert_int_equal(tt_record_cells_put(bytes, pair, 2) - bytes, 1 + 2 + 3);
    struct tt_cell_spec tree[] = {
        {.repeat = 1},
        {.repeat = 1},
        {.first_step = 1, .last_step = 1, .repeat = 1, .source_count = 2, .sources = both}};
    const uint8_t *end = tt_record_cells_put(bytes, tree, 3);
    assert_int_equal(end - bytes, 1 + 1 + 1 + 3);
    struct tt_record_cells cells = {0};
    const uint8_t *at = bytes;
    const char *what;
    assert_int_equal(tt_record_cells_get(&cells, &at, end, &what), TT_OK);
    assert_ptr_equal(at, end);
    assert_int_equal(cells.count, 3);
    assert_int_equal(cells.specs[2].source_count, 2);
    assert_memory_equal(cells.specs[2].sources, both, sizeof(both));
    assert_int_equal(cells.specs[2].first_step, 1);
    tt_record_cells_fini(&cells);
    for (const uint8_t *cut = bytes; cut < end; cut++)
        assert_int_equal(get(bytes, (size_t)(cut - bytes), &what), TT_ERR_INVALID);
}

static void lying_cells_are_refused(void **state) {
    (void)state;
    const char *what;
    assert_int_equal(get("\x00", 1, &what), TT_ERR_INVALID); /* of no cell */
    assert_int_equal(get("\x05\x00", 2, &what), TT_ERR_INVALID);
    assert_string_equal(what, "number of cells");
    assert_int_equal(get("\xff\xff\xff\xff\x0f\x00", 6, &what), TT_ERR_INVALID);
    assert_int_equal(get("\x01\x01\x00", 3, &what), TT_ERR_INVALID);
    assert_string_equal(what, "cell's repeats");
    assert_int_equal(get("\x02\x00\x08\x02", 4, &what), TT_ERR_INVALID); /* reads one before all */
    assert_int_equal(get("\x02\x00\x08\x00", 4, &what), TT_ERR_INVALID); /* reads itself */
    assert_string_equal(what, "cell's source, which is no cell before it");
    assert_int_equal(get("\x01\x18\xff\xff\x7f", 5, &what), TT_ERR_INVALID); /* of 2 million */
    assert_int_equal(get("\x02\x00\x08\x01", 4, &what), TT_OK);
}

int main(void) {
    snprintf(path, sizeof(path), "/tmp/tutti-test-replay-cells-%d", (int)getpid());
    const struct CMUnitTest tests[] = {cmocka_unit_test(cells_replay),
                                       cmocka_unit_test(the_recorded_policy_does_the_same),
                                       cmocka_unit_test(whole_sequences_end_where_they_did),
                                       cmocka_unit_test(trees_are_for_cells),
                                       cmocka_unit_test(a_changed_decision_is_told),
                                       cmocka_unit_test(lies_are_survived),
                                       cmocka_unit_test(they_take_few_bytes),
                                       cmocka_unit_test(lying_cells_are_refused)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
