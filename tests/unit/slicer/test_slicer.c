/* threaded */
/* slow */
/* D1, D2: cut models answer what the whole answers, whatever the cut, and whatever batches their
 * requests are merged into and split from on the way. */
#include "slicer/slicer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/onnxruntime/onnxruntime.h"
#include "model/onnx/cut_report.h"
#include "profile/blocking_run.h"
#include "profile/machine.h"
#include "unit/engine/engine_bench.h"
#include "unit/engine/tiny_models.h"
#include "unit/seed.h"

#include <cmocka.h>

static struct tt_ort_library *library;
static struct tt_engine_runtime runtime;
static struct tt_engine *engine;
static struct bench bench;
static char root[256];

static const struct {
    const char *name;
    struct tt_text (*make)(uint64_t seed);
} models[] = {{"mlp", tiny_mlp},
              {"resnet", tiny_resnet},
              {"attention", tiny_attention},
              {"lstm", tiny_lstm},
              {"layers", tiny_layers}};

static int set_up(void **state) {
    (void)state;
    struct tt_error why;
    library = bench_library();
    runtime = (struct tt_engine_runtime){.kind = tt_engine_kind_at(0), .shared = library};
    bench_init(&bench);
    struct tt_engine_options options = {
        .executor_count = 2, .queue_depth = 4, .done = bench_done, .done_context = &bench};
    if (tt_ort_engine_open(library, &options, &engine, &why) ||
        tt_machine_scratch(root, sizeof(root), &why)) {
        fprintf(stderr, "%s\n", why.text);
        return -1;
    }
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    engine->ops->close(engine);
    tt_ort_library_close(library);
    bench_fini(&bench);
    tt_machine_remove(root);
    return 0;
}

/* The file's path, good until the next call. */
static const char *write_model(const char *name, struct tt_text take_onnx) {
    static char path[512];
    struct tt_error why;
    snprintf(path, sizeof(path), "%s/%s.onnx", root, name);
    assert_int_equal(tt_text_write_file(path, &take_onnx, &why), TT_OK);
    tt_text_fini(&take_onnx);
    return path;
}

static struct tt_slicer_options options_of(const char *path, struct tt_cut_request cut) {
    return (struct tt_slicer_options){.engine = engine,
                                      .runtime = &runtime,
                                      .name = "tiny",
                                      .path = path,
                                      .batched = true,
                                      .max_batch = 64,
                                      .cut = cut};
}

static struct tt_slicer *slice(const char *path, struct tt_cut_request cut) {
    struct tt_slicer_options options = options_of(path, cut);
    struct tt_slicer *slicer = NULL;
    struct tt_error why;
    if (tt_slicer_new(&options, &slicer, &why))
        fail_msg("%s", why.text);
    return slicer;
}

static void expect_refused(const char *path, struct tt_cut_request cut, const char *says) {
    struct tt_slicer_options options = options_of(path, cut);
    struct tt_slicer *slicer = NULL;
    struct tt_error why;
    assert_int_equal(tt_slicer_new(&options, &slicer, &why), TT_ERR_INVALID);
    if (!strstr(why.text, says))
        fail_msg("'%s' lacks '%s'", why.text, says);
}

static struct tt_engine_model *load(const char *directory, int32_t slot_count) {
    struct tt_ort_slices_options options = {
        .directory = directory, .max_batch = 64, .slot_count = slot_count};
    struct tt_engine_model *model = NULL;
    struct tt_error why;
    if (tt_ort_engine_load_slices(engine, &options, &model, &why))
        fail_msg("%s", why.text);
    return model;
}

/* D1: the check that tt_slicer_write makes of its own work, batches of 1, 2 and 3 against the
 * whole, bit for bit, for every number of stages. */
static void test_every_cut_equals_the_whole(void **state) {
    (void)state;
    for (size_t m = 0; m < TT_COUNT(models); m++) {
        const char *path = write_model(models[m].name, models[m].make(m));
        int32_t most = 0;
        for (int32_t k = 0; k <= most; k++) {
            struct tt_cut_request cut = {.how = k ? TT_CUT_STAGES : TT_CUT_PER_NODE, .count = k};
            struct tt_slicer *slicer = slice(path, cut);
            int32_t stages = slicer->plan->stage_count;
            most = k ? most : stages;
            assert_int_equal(stages, k ? k : most);
            assert_true(most >= 6);
            assert_int_equal(slicer->probe.rounded_count, 0);
            char directory[512];
            snprintf(directory, sizeof(directory), "%s/%s-%d", root, models[m].name, k);
            struct tt_error why;
            if (tt_slicer_write(slicer, directory, &why))
                fail_msg("%s", why.text);
            struct tt_engine_model *loaded = load(directory, 0);
            assert_int_equal(engine->ops->step_count(loaded), stages);
            engine->ops->unload(loaded);
            tt_slicer_free(slicer);
        }
    }
}

/* ---- random merges and splits ---- */

enum { REQUESTS = 24, MAX_ROWS = 3, LENGTH = 5 };

struct walker {
    int32_t rows, step;
    bool flying, gone;
    struct tt_synthetic_input inputs;
    struct tt_text expected;
    struct tt_engine_state *state;
};

struct flight {
    struct tt_engine_task task;
    struct tt_engine_member members[REQUESTS];
    struct tt_error why[REQUESTS];
    bool flying;
};

struct walk {
    struct tt_prng random;
    struct tt_engine_model *whole, *sliced;
    int32_t steps;
    struct walker walkers[REQUESTS];
    struct flight flights[2]; /* one per executor */
    int32_t left;
    int64_t merges, moved;
};

static int32_t below(struct walk *walk, int32_t bound) {
    return (int32_t)tt_prng_below(&walk->random, (uint64_t)bound);
}

static void read_answer(const struct tt_engine_model *model, const struct tt_engine_member *member,
                        struct tt_text *out) {
    const struct tt_signature *signature = engine->ops->signature(model);
    for (int32_t i = 0; i < signature->output_count; i++) {
        struct tt_tensor_view view;
        engine->ops->output(member->result, i, member->first_row, member->rows, &view);
        tt_text_append(out, view.bytes, view.size_bytes);
    }
    engine->ops->result_release(member->result);
}

/* What the whole model answers to this request alone. */
static void ask_alone(struct walk *walk, struct walker *walker) {
    struct flight flight = {.members[0] = {.rows = walker->rows, .inputs = walker->inputs.views}};
    flight.task =
        (struct tt_engine_task){.model = walk->whole, .member_count = 1, .members = flight.members};
    bench_run(&bench, &flight.task);
    assert_int_equal(flight.members[0].err, TT_OK);
    tt_text_init(&walker->expected);
    read_answer(walk->whole, &flight.members[0], &walker->expected);
}

/* Makes a batch of requests that wait at one step, in their order or any other, for some steps. */
static void launch(struct walk *walk, int32_t executor) {
    struct flight *flight = &walk->flights[executor];
    int32_t waiting[REQUESTS], count = 0, step = -1;
    int32_t start = below(walk, REQUESTS);
    for (int32_t i = 0; i < REQUESTS; i++) {
        struct walker *walker = &walk->walkers[(start + i) % REQUESTS];
        if (walker->flying || walker->gone || (step >= 0 && walker->step != step))
            continue;
        step = walker->step;
        if (count == 0 || below(walk, 3))
            waiting[count++] = (start + i) % REQUESTS;
    }
    if (count == 0)
        return;
    for (int32_t i = count - 1; i > 0 && below(walk, 2); i--) {
        int32_t k = below(walk, i + 1), kept = waiting[i];
        waiting[i] = waiting[k];
        waiting[k] = kept;
    }
    for (int32_t i = 0; i < count; i++) {
        struct walker *walker = &walk->walkers[waiting[i]];
        walker->flying = true;
        flight->members[i] = (struct tt_engine_member){.rows = walker->rows,
                                                       .inputs = walker->inputs.views,
                                                       .user = walker,
                                                       .state = walker->state,
                                                       .why = &flight->why[i]};
    }
    flight->task = (struct tt_engine_task){.model = walk->sliced,
                                           .head.executor = executor,
                                           .head.first_step = step,
                                           .head.last_step = step + below(walk, walk->steps - step),
                                           .member_count = count,
                                           .members = flight->members};
    flight->flying = true;
    walk->merges += count > 1;
    tt_engine_submit(engine, &flight->task);
    int32_t dice = below(walk, 8);
    if (dice == 0)
        tt_engine_yield(engine, &flight->task);
    else if (dice == 1)
        tt_engine_abort(engine, &flight->task);
}

static void leave(struct walk *walk, struct walker *walker) {
    walker->gone = true;
    walk->left--;
}

static void land(struct walk *walk, struct tt_engine_task *task) {
    struct flight *flight = TT_CONTAINER_OF(task, struct flight, task);
    flight->flying = false;
    walk->moved += task->gathered_bytes;
    assert_true(task->head.last_step_done >= task->head.first_step - 1);
    assert_true(task->head.last_step_done <= task->head.last_step);
    for (int32_t i = 0; i < task->member_count; i++) {
        struct tt_engine_member *member = &flight->members[i];
        struct walker *walker = member->user;
        walker->flying = false;
        walker->state = member->state;
        if (task->head.outcome == TT_OUTCOME_ABORTED) {
            assert_int_equal(member->err, TT_ERR_CANCELLED);
            continue; /* as if it had not been */
        }
        if (member->err)
            fail_msg("%s", flight->why[i].text);
        walker->step = task->head.last_step_done + 1;
        if (walker->step == walk->steps) {
            struct tt_text answer;
            tt_text_init(&answer);
            read_answer(walk->sliced, member, &answer);
            assert_null(member->state);
            assert_int_equal(answer.length, walker->expected.length);
            assert_memory_equal(answer.bytes, walker->expected.bytes, answer.length);
            tt_text_fini(&answer);
            leave(walk, walker);
        } else if (below(walk, 30) == 0) { /* its client goes away */
            engine->ops->state_release(walker->state);
            walker->state = NULL;
            leave(walk, walker);
        }
    }
}

static void walk_once(struct walk *walk) {
    const struct tt_signature *signature = engine->ops->signature(walk->whole);
    struct tt_error why;
    for (int32_t i = 0; i < REQUESTS; i++) {
        struct walker *walker = &walk->walkers[i];
        *walker = (struct walker){.rows = 1 + below(walk, MAX_ROWS)};
        assert_int_equal(tt_synthetic_input_init(&walker->inputs, signature, below(walk, 1000),
                                                 walker->rows, LENGTH, TT_SYNTHETIC_INPUT_MIXED,
                                                 &why),
                         TT_OK);
        ask_alone(walk, walker);
    }
    walk->left = REQUESTS;
    while (walk->left > 0) {
        for (int32_t e = 0; e < 2; e++)
            if (!walk->flights[e].flying)
                launch(walk, e);
        if (walk->flights[0].flying || walk->flights[1].flying)
            land(walk, bench_wait(&bench));
    }
    while (walk->flights[0].flying || walk->flights[1].flying)
        land(walk, bench_wait(&bench));
    for (int32_t i = 0; i < REQUESTS; i++) {
        tt_synthetic_input_fini(&walk->walkers[i].inputs);
        tt_text_fini(&walk->walkers[i].expected);
    }
}

/* D2: requests that are merged, split and stretched at random over the steps, yielded, aborted and
 * cancelled, on two executors, with slots in plenty and with hardly any. */
static void test_random_merges_and_splits(void **state) {
    (void)state;
    uint64_t seed = test_seed(20260131);
    for (size_t m = 0; m < TT_COUNT(models); m++) {
        const char *path = write_model(models[m].name, models[m].make(seed + m));
        static const int32_t cuts[] = {2, 4, 0}, slots[] = {0, 7, 1};
        for (size_t c = 0; c < TT_COUNT(cuts); c++) {
            struct tt_cut_request cut = {.how = cuts[c] ? TT_CUT_STAGES : TT_CUT_PER_NODE,
                                         .count = cuts[c]};
            struct tt_slicer *slicer = slice(path, cut);
            char directory[512];
            struct tt_error why;
            snprintf(directory, sizeof(directory), "%s/walk-%zu-%zu", root, m, c);
            if (tt_slicer_write(slicer, directory, &why))
                fail_msg("%s", why.text);
            struct walk *walk = test_calloc(1, sizeof(*walk));
            tt_prng_init(&walk->random, seed, m * 16 + c);
            walk->whole = slicer->whole;
            walk->sliced = load(directory, slots[c]);
            walk->steps = engine->ops->step_count(walk->sliced);
            for (int round = 0; round < 6; round++)
                walk_once(walk);
            assert_true(walk->merges > 10);
            assert_true(walk->moved > 0);
            engine->ops->unload(walk->sliced); /* which asserts that no slot is left behind */
            test_free(walk);
            tt_slicer_free(slicer);
        }
    }
}

/* ---- lengths ---- */

enum { PADDED = 3, STEPS = 4 };

static void run_padded(struct tt_engine_model *model, struct tt_engine_member *members,
                       int32_t count, int32_t first, int32_t last, int32_t length) {
    struct tt_engine_task task = {.model = model,
                                  .head.first_step = first,
                                  .head.last_step = last,
                                  .head.length = length,
                                  .member_count = count,
                                  .members = members};
    tt_engine_submit(engine, &task);
    assert_ptr_equal(bench_wait(&bench), &task);
    assert_int_equal(task.head.outcome, TT_OUTCOME_DONE);
    for (int32_t i = 0; i < count; i++)
        if (members[i].err)
            fail_msg("member %d of steps %d to %d: %s", i, first, last,
                     members[i].why ? members[i].why->text : "");
}

/* D2: requests that were padded to one length at first stay so, whatever batches they are in later;
 * those of two lengths that are put together in the middle run apart. */
static void test_padded_in_the_middle(void **state) {
    (void)state;
    const char *path = write_model("padded", tiny_elementwise());
    struct tt_slicer *slicer = slice(path, (struct tt_cut_request){.how = TT_CUT_PER_NODE});
    assert_int_equal(slicer->plan->stage_count, STEPS);
    char directory[512];
    struct tt_error why;
    snprintf(directory, sizeof(directory), "%s/padded", root);
    assert_int_equal(tt_slicer_write(slicer, directory, &why), TT_OK);
    struct tt_engine_model *model = load(directory, 0);
    static const int32_t lengths[PADDED] = {3, 5, 8};
    struct tt_synthetic_input inputs[PADDED];
    struct tt_engine_member members[PADDED], alone[PADDED];
    struct tt_error sentences[PADDED];
    for (int32_t i = 0; i < PADDED; i++) {
        assert_int_equal(tt_synthetic_input_init(&inputs[i], engine->ops->signature(model), i, 1,
                                                 lengths[i], TT_SYNTHETIC_INPUT_MIXED, &why),
                         TT_OK);
        alone[i] = members[i] =
            (struct tt_engine_member){.rows = 1, .inputs = inputs[i].views, .why = &sentences[i]};
        run_padded(model, &alone[i], 1, 0, STEPS - 1, 0);
    }
    run_padded(model, members, 2, 0, 1, 5);     /* 3 and 5, padded to 5 */
    run_padded(model, members, 1, 2, 2, 3);     /* the first alone: it stays at 5 */
    run_padded(model, members + 1, 1, 2, 2, 5); /* the second */
    run_padded(model, members + 2, 1, 0, 2, 8);
    run_padded(model, members, PADDED, 3, 3, 8); /* all three: 5, 5 and 8 */
    static const int64_t padded[PADDED] = {5, 5, 8};
    for (int32_t i = 0; i < PADDED; i++) {
        struct tt_tensor_view view, single;
        engine->ops->output(members[i].result, 0, members[i].first_row, 1, &view);
        engine->ops->output(alone[i].result, 0, 0, 1, &single);
        assert_int_equal(view.shape.dims[1], padded[i]);
        assert_memory_equal(view.bytes, single.bytes, single.size_bytes);
        engine->ops->result_release(members[i].result);
        engine->ops->result_release(alone[i].result);
        tt_synthetic_input_fini(&inputs[i]);
    }
    engine->ops->unload(model);
    tt_slicer_free(slicer);
}

/* ---- faults ---- */

static void run_members(struct tt_engine_model *model, struct tt_engine_member *members,
                        int32_t count, int32_t first, int32_t last) {
    struct tt_engine_task task = {.model = model,
                                  .head.first_step = first,
                                  .head.last_step = last,
                                  .member_count = count,
                                  .members = members};
    tt_engine_submit(engine, &task);
    assert_ptr_equal(bench_wait(&bench), &task);
    assert_int_equal(task.head.outcome, TT_OUTCOME_DONE);
    assert_int_equal(task.head.last_step_done, last);
}

/* A stage that fails fails only the one whose input it was, whether its batch comes from the start
 * or is taken up in the middle; what it has in slots is given back. */
static void test_a_stage_that_fails(void **state) {
    (void)state;
    const char *path = write_model("embed", tiny_embed());
    const char *after = "positive";
    struct tt_slicer *slicer =
        slice(path, (struct tt_cut_request){.how = TT_CUT_AT, .names = &after, .name_count = 1});
    assert_int_equal(slicer->plan->stage_count, 2);
    char directory[512];
    struct tt_error why, sentences[3];
    snprintf(directory, sizeof(directory), "%s/embed", root);
    assert_int_equal(tt_slicer_write(slicer, directory, &why), TT_OK);
    struct tt_engine_model *model = load(directory, 0);
    static const int64_t ids[3][2] = {{1, -2}, {3, 1000}, {5, 6}};
    for (int apart = 0; apart < 2; apart++) {
        struct tt_engine_member members[3], alone[3];
        struct tt_tensor_view views[3];
        for (int i = 0; i < 3; i++) {
            views[i] = (struct tt_tensor_view){ids[i], sizeof(ids[i]), {2, {1, 2}}};
            alone[i] = members[i] =
                (struct tt_engine_member){.rows = 1, .inputs = &views[i], .why = &sentences[i]};
        }
        if (apart)
            run_members(model, members, 3, 0, 0);
        run_members(model, members, 3, apart, 1);
        assert_int_equal(members[1].err, TT_ERR_INVALID);
        assert_non_null(strstr(sentences[1].text, "1000"));
        engine->ops->state_release(members[1].state);
        for (int i = 0; i < 3; i += 2) {
            run_members(slicer->whole, &alone[i], 1, 0, 0);
            assert_int_equal(members[i].err, TT_OK);
            assert_null(members[i].state);
            struct tt_tensor_view view, single;
            engine->ops->output(members[i].result, 0, members[i].first_row, 1, &view);
            engine->ops->output(alone[i].result, 0, 0, 1, &single);
            assert_int_equal(view.size_bytes, single.size_bytes);
            assert_memory_equal(view.bytes, single.bytes, single.size_bytes);
            engine->ops->result_release(members[i].result);
            engine->ops->result_release(alone[i].result);
        }
    }
    engine->ops->unload(model); /* which asserts that no slot is left behind */
    tt_slicer_free(slicer);
}

/* ---- what cannot be cut, and what lies ---- */

static void test_refusals(void **state) {
    (void)state;
    const char *path = write_model("detour", tiny_detour());
    const char *flat = "flat", *before = "before", *nobody = "nobody";
    expect_refused(path, (struct tt_cut_request){.how = TT_CUT_AT, .names = &flat, .name_count = 1},
                   "tensor 'flat'");
    expect_refused(path,
                   (struct tt_cut_request){.how = TT_CUT_AT, .names = &nobody, .name_count = 1},
                   "nobody");
    /* Five nodes, of which only the first and the last but one can be cut after. */
    expect_refused(path, (struct tt_cut_request){.how = TT_CUT_STAGES, .count = 4},
                   "at most 3; for example, it cannot be cut after Reshape");
    struct tt_slicer *slicer =
        slice(path, (struct tt_cut_request){.how = TT_CUT_AT, .names = &before, .name_count = 1});
    assert_int_equal(slicer->plan->stage_count, 2);
    struct tt_text text;
    tt_text_init(&text);
    tt_cut_report(slicer->graph, slicer->plan, NULL, &text);
    assert_non_null(strstr(text.bytes, "cut after Tanh 'Tanh/before' (node 0): 1 tensor"));
    assert_non_null(strstr(text.bytes, "no cut after Reshape 'Reshape/flat'"));
    tt_text_clear(&text);
    assert_int_equal(tt_cut_svg(slicer->graph, slicer->plan, "a < b", &text), TT_OK);
    assert_non_null(strstr(text.bytes, "a &lt; b"));
    assert_non_null(strstr(text.bytes, "stage 1"));
    assert_non_null(strstr(text.bytes, "viewBox"));
    assert_non_null(strstr(text.bytes, "<title>input "));
    assert_non_null(strstr(text.bytes, "<title>output "));
    assert_non_null(strstr(text.bytes, "marker-end"));
    tt_text_fini(&text);
    tt_slicer_free(slicer);
}

/* D1: however many it finds cheap enough, they are stages of the model. */
static void test_a_number_of_its_own_choice(void **state) {
    (void)state;
    const char *path = write_model("auto", tiny_resnet(4));
    struct tt_slicer *slicer = slice(path, (struct tt_cut_request){.how = TT_CUT_AUTO});
    assert_in_range(slicer->plan->stage_count, 1, 16);
    assert_string_equal(slicer->asked, "stages auto");
    assert_int_equal(slicer->plan->first_nodes[slicer->plan->stage_count],
                     slicer->graph->node_count);
    struct tt_slicer_cost cost = {0};
    char directory[512];
    struct tt_error why;
    snprintf(directory, sizeof(directory), "%s/auto", root);
    assert_int_equal(tt_slicer_write(slicer, directory, &why), TT_OK);
    assert_int_equal(tt_slicer_cost(slicer, directory, 2, 3, &cost, &why), TT_OK);
    assert_true(cost.whole_ns > 0);
    assert_true(cost.ratio_ppm > 0);
    tt_slicer_free(slicer);
}

/* D1: two groups of nodes that are best at different batches part where they meet. */
static void test_by_batch(void **state) {
    (void)state;
    const char *path = write_model("bybatch", tiny_mlp(6));
    struct tt_slicer *slicer = slice(path, (struct tt_cut_request){.how = TT_CUT_BY_BATCH});
    assert_non_null(slicer->preferred);
    /* With figures of ours: */
    int32_t nodes = slicer->graph->node_count;
    assert_true(nodes >= 6);
    for (int32_t i = 0; i < nodes; i++) {
        slicer->graph->nodes[i].time_ns = 1000;
        slicer->preferred[i] = i < nodes / 2 ? 16 : 2;
    }
    struct tt_cut_request cut = {
        .how = TT_CUT_BY_BATCH, .batched = true, .preferred = slicer->preferred};
    struct tt_cut_plan *plan;
    struct tt_error why;
    assert_int_equal(tt_cut_choose(slicer->graph, &cut, &plan, &why), TT_OK);
    assert_int_equal(plan->stage_count, 2);
    assert_int_equal(plan->first_nodes[1], nodes / 2);
    tt_cut_plan_free(plan);
    /* A node that is alone in what it prefers and takes no time makes no stage. */
    slicer->preferred[1] = 2;
    slicer->graph->nodes[1].time_ns = 10;
    assert_int_equal(tt_cut_choose(slicer->graph, &cut, &plan, &why), TT_OK);
    assert_int_equal(plan->stage_count, 2);
    tt_cut_plan_free(plan);
    /* Equal time: the slow node stands alone between the others, within the tenth. */
    for (int32_t i = 0; i < nodes; i++)
        slicer->graph->nodes[i].time_ns = i == 2 ? 5000 : 1000;
    cut = (struct tt_cut_request){.how = TT_CUT_STAGES, .count = 3, .batched = true};
    assert_int_equal(tt_cut_choose(slicer->graph, &cut, &plan, &why), TT_OK);
    assert_int_equal(plan->first_nodes[1], 2);
    assert_int_equal(plan->first_nodes[2], 3);
    tt_cut_plan_free(plan);
    tt_slicer_free(slicer);
}

static void test_a_file_that_lies_about_its_batch(void **state) {
    (void)state;
    const char *path = write_model("liar", tiny_liar());
    expect_refused(path, (struct tt_cut_request){.how = TT_CUT_STAGES, .count = 2},
                   "Softmax 'Softmax/over_rows'");
}

/* ---- kept cuts ---- */

static void test_a_cut_is_kept_and_asked_again(void **state) {
    (void)state;
    const char *path = write_model("kept", tiny_mlp(5));
    struct tt_slicer_options options =
        options_of(path, (struct tt_cut_request){.how = TT_CUT_STAGES, .count = 3});
    char home[512], first[1024], second[1024], weights[1100];
    struct tt_error why;
    enum tt_slicer_origin origin;
    snprintf(home, sizeof(home), "%s/kept/cuts", root);
    assert_int_equal(tt_slicer_find(&options, home, first, sizeof(first), &origin, &why), TT_OK);
    assert_int_equal(origin, TT_SLICER_MADE);
    assert_int_equal(tt_slicer_find(&options, home, second, sizeof(second), &origin, &why), TT_OK);
    assert_int_equal(origin, TT_SLICER_FOUND);
    assert_string_equal(first, second);
    options.cut.count = 2;
    assert_int_equal(tt_slicer_find(&options, home, second, sizeof(second), &origin, &why), TT_OK);
    assert_int_equal(origin, TT_SLICER_MADE);
    assert_string_not_equal(first, second);
    /* One bit of a weight: the cut answers otherwise, and is made anew. */
    options.cut.count = 3;
    snprintf(weights, sizeof(weights), "%s/weights.bin", first);
    FILE *file = fopen(weights, "r+b");
    assert_non_null(file);
    int byte = fgetc(file);
    assert_int_equal(fseek(file, 2, SEEK_SET), 0);
    assert_int_equal(fputc(byte ^ 0x40, file), byte ^ 0x40);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(tt_slicer_find(&options, home, second, sizeof(second), &origin, &why), TT_OK);
    assert_int_equal(origin, TT_SLICER_MADE);
    assert_string_equal(first, second);
}

/* Neither the model's directory nor a cache can be written: files stand where folders would be. */
static void test_a_cut_without_a_place_is_temporary(void **state) {
    (void)state;
    const char *path = write_model("homeless", tiny_mlp(5));
    struct tt_slicer_options options =
        options_of(path, (struct tt_cut_request){.how = TT_CUT_STAGES, .count = 3});
    char home[600], blocked[600], place[1024], parent[1024];
    struct tt_error why;
    enum tt_slicer_origin origin;
    const char *cache = getenv("XDG_CACHE_HOME"), *temporary = getenv("TMPDIR");
    char *kept_cache = cache ? strdup(cache) : NULL;
    char *kept_temporary = temporary ? strdup(temporary) : NULL;
    snprintf(home, sizeof(home), "%s/.tutti", path); /* the model file is no folder */
    snprintf(blocked, sizeof(blocked), "%s/cache", path);
    setenv("XDG_CACHE_HOME", blocked, 1);
    setenv("TMPDIR", root, 1);
    assert_int_equal(tt_slicer_find(&options, home, place, sizeof(place), &origin, &why), TT_OK);
    assert_int_equal(origin, TT_SLICER_TEMPORARY);
    assert_int_equal(strncmp(place, root, strlen(root)), 0);
    assert_int_equal(access(place, R_OK), 0);
    snprintf(parent, sizeof(parent), "%.*s", (int)(strrchr(place, '/') - place), place);
    tt_slicer_release(place, origin);
    assert_int_equal(access(parent, F_OK), -1);
    /* Without a temporary folder either, the message names all that was tried. */
    setenv("TMPDIR", blocked, 1);
    assert_int_equal(tt_slicer_find(&options, home, place, sizeof(place), &origin, &why),
                     TT_ERR_IO);
    assert_non_null(strstr(why.text, "cannot write the stages of model"));
    assert_non_null(strstr(why.text, blocked));
    (kept_cache ? setenv("XDG_CACHE_HOME", kept_cache, 1) : unsetenv("XDG_CACHE_HOME"));
    (kept_temporary ? setenv("TMPDIR", kept_temporary, 1) : unsetenv("TMPDIR"));
    free(kept_cache);
    free(kept_temporary);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_cut_equals_the_whole),
        cmocka_unit_test(test_random_merges_and_splits),
        cmocka_unit_test(test_padded_in_the_middle),
        cmocka_unit_test(test_a_stage_that_fails),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_a_number_of_its_own_choice),
        cmocka_unit_test(test_by_batch),
        cmocka_unit_test(test_a_file_that_lies_about_its_batch),
        cmocka_unit_test(test_a_cut_is_kept_and_asked_again),
        cmocka_unit_test(test_a_cut_without_a_place_is_temporary),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
