/* threaded */
/* D8: requests that meet a condition between stages leave there with what the exit's graph gives
 * for them alone, or skip stages, whatever batches they are in, wherever these are cut, preempted
 * and aborted; and what makes no sense as an exit is refused with a sentence. */
#include "slicer/slicer.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/onnxruntime/onnxruntime.h"
#include "profile/machine.h"
#include "unit/engine/engine_bench.h"
#include "unit/engine/tiny_models.h"
#include "unit/seed.h"

#include <cmocka.h>

enum { STAGES = 6, REQUESTS = 24, MAX_ROWS = 3, MAX_LENGTH = 8 };

static struct tt_ort_library *library;
static struct tt_engine_runtime runtime;
static struct tt_engine *engine;
static struct bench bench;
static char root[256], stages[300], skip_path[300], head_path[300];

/* ---- the model, and what it must answer ----
 *
 * x [N,L]: s0 = x + 1, s1 = -s0, s2 = max(s1, x), s3 = s2 + s2, s4 = -s3, y = max(s4, x), a stage
 * each. After stage 1, a request with some s1 above -SKIP continues at stage 4, with s3 = s1 + x.
 * After stage 3, a request that moved less than MOVED since s0 leaves, with y = -s3. Nothing here
 * rounds differently in another batch, and padding is no neutral element of anything. */

#define SKIP 0.25f
#define MOVED 0.8

static struct tt_text make_ladder(void) {
    struct tiny_maker m;
    tiny_maker_begin(&m, 1);
    tiny_onnx_input(&m.model, "x", TINY_FLOAT, TINY_DIMS(-1, -1));
    tiny_onnx_output(&m.model, "y", TINY_FLOAT, TINY_DIMS(-1, -1));
    static const float one = 1;
    tiny_onnx_constant(&m.model, "one", TINY_FLOAT, TINY_DIMS(1), &one, sizeof(one));
    tiny_op(&m, "Add", "s0", "x", "one", NULL, NULL);
    tiny_op(&m, "Neg", "s1", "s0", NULL, NULL, NULL);
    tiny_op(&m, "Max", "s2", "s1", "x", NULL, NULL);
    tiny_op(&m, "Add", "s3", "s2", "s2", NULL, NULL);
    tiny_op(&m, "Neg", "s4", "s3", NULL, NULL, NULL);
    tiny_op(&m, "Max", "y", "s4", "x", NULL, NULL);
    return tiny_onnx_end(&m.model);
}

static struct tt_text make_skip(void) {
    struct tiny_maker m;
    tiny_maker_begin(&m, 1);
    tiny_onnx_input(&m.model, "s1", TINY_FLOAT, TINY_DIMS(-1, -1));
    tiny_onnx_input(&m.model, "x", TINY_FLOAT, TINY_DIMS(-1, -1));
    tiny_onnx_output(&m.model, "near", TINY_FLOAT, TINY_DIMS(-1, 1));
    tiny_onnx_output(&m.model, "s3", TINY_FLOAT, TINY_DIMS(-1, -1));
    static const float above = SKIP;
    tiny_onnx_constant(&m.model, "above", TINY_FLOAT, TINY_DIMS(1), &above, sizeof(above));
    tiny_ints(&m, "axes", 1, (const int64_t[]){1});
    const char *most = tiny_op(&m, "ReduceMax", NULL, "s1", NULL, NULL, NULL);
    tiny_op(&m, "Add", "near", most, "above", NULL, NULL);
    tiny_op(&m, "Add", "s3", "s1", "x", NULL, NULL);
    return tiny_onnx_end(&m.model);
}

static struct tt_text make_head(void) {
    struct tiny_maker m;
    tiny_maker_begin(&m, 1);
    tiny_onnx_input(&m.model, "s3", TINY_FLOAT, TINY_DIMS(-1, -1));
    tiny_onnx_output(&m.model, "early", TINY_FLOAT, TINY_DIMS(-1, -1));
    tiny_op(&m, "Neg", "early", "s3", NULL, NULL, NULL);
    return tiny_onnx_end(&m.model);
}

static const struct tt_engine_give head_gives[] = {{"y", "early"}};
static struct tt_engine_exit exits[] = {
    {.step = 1, .to = 4, .graph = skip_path, .condition = "near"},
    {.step = 3,
     .graph = head_path,
     .moved = "s3",
     .since = "s0",
     .less_than = MOVED,
     .give_count = 1,
     .gives = head_gives},
};

enum route { WHOLE, SKIPS, LEAVES };

/* One row, worked out here. */
static enum route route_of(const float *x, int32_t length) {
    bool skips = false;
    double moved = 0, size = 0;
    for (int32_t i = 0; i < length; i++) {
        float s0 = x[i] + 1, s1 = -s0, s2 = s1 > x[i] ? s1 : x[i], s3 = s2 + s2;
        skips |= s1 + SKIP > 0;
        moved += ((double)s3 - s0) * ((double)s3 - s0);
        size += (double)s0 * s0;
    }
    return skips ? SKIPS : sqrt(moved) < MOVED * sqrt(size) ? LEAVES : WHOLE;
}

static float answer_of(enum route route, float x) {
    float s0 = x + 1, s1 = -s0, s2 = s1 > x ? s1 : x, s3 = s2 + s2;
    if (route == LEAVES)
        return -s3;
    float s4 = route == SKIPS ? -(s1 + x) : -s3;
    return s4 > x ? s4 : x;
}

struct walker {
    int32_t rows, length, step;
    bool flying, gone;
    float x[MAX_ROWS * MAX_LENGTH];
    struct tt_tensor_view view;
    enum route route;
    struct tt_engine_state *state;
};

/* A request goes elsewhere only if each of its rows does. */
static enum route route_of_all(const struct walker *walker) {
    bool skips = true, leaves = true;
    for (int32_t r = 0; r < walker->rows; r++)
        skips &= route_of(walker->x + r * walker->length, walker->length) == SKIPS;
    for (int32_t r = 0; r < walker->rows; r++) {
        /* Its moving is looked at even of a row that would have skipped alone. */
        double moved = 0, size = 0;
        for (int32_t i = 0; i < walker->length; i++) {
            float x = walker->x[r * walker->length + i], s0 = x + 1;
            float s2 = -s0 > x ? -s0 : x;
            moved += ((double)(s2 + s2) - s0) * ((double)(s2 + s2) - s0);
            size += (double)s0 * s0;
        }
        leaves &= sqrt(moved) < MOVED * sqrt(size);
    }
    return skips ? SKIPS : leaves ? LEAVES : WHOLE;
}

/* ---- setting up ---- */

static void write_model(char *path, const char *name, struct tt_text take_onnx) {
    struct tt_error why;
    snprintf(path, 300, "%s/%s.onnx", root, name);
    assert_int_equal(tt_text_write_file(path, &take_onnx, &why), TT_OK);
    tt_text_fini(&take_onnx);
}

static void cut_ladder(void) {
    char path[300];
    struct tt_error why;
    write_model(path, "ladder", make_ladder());
    write_model(skip_path, "skip", make_skip());
    write_model(head_path, "head", make_head());
    snprintf(stages, sizeof(stages), "%s/stages", root);
    struct tt_slicer_options options = {.engine = engine,
                                        .runtime = &runtime,
                                        .name = "ladder",
                                        .path = path,
                                        .batched = true,
                                        .max_batch = 64,
                                        .cut = {.how = TT_CUT_PER_NODE}};
    struct tt_slicer *slicer = NULL;
    if (tt_slicer_new(&options, &slicer, &why) || tt_slicer_write(slicer, stages, &why))
        fail_msg("%s", why.text);
    tt_slicer_free(slicer);
}

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
    cut_ladder();
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

static enum tt_err load(const struct tt_engine_exit *wanted, int32_t count, int32_t slots,
                        struct tt_engine_model **out_model, struct tt_error *why) {
    struct tt_ort_slices_options options = {.directory = stages,
                                            .max_batch = 64,
                                            .slot_count = slots,
                                            .exit_count = count,
                                            .exits = wanted};
    return tt_ort_engine_load_slices(engine, &options, out_model, why);
}

/* ---- at random ---- */

struct flight {
    struct tt_engine_task task;
    struct tt_engine_member members[REQUESTS];
    struct tt_error why[REQUESTS];
    bool flying;
};

struct walk {
    struct tt_prng random;
    struct tt_engine_model *model;
    struct walker walkers[REQUESTS];
    struct flight flights[2]; /* one per executor */
    int32_t left;
    int64_t ended[3];     /* by course */
    int64_t in_the_midst; /* requests that left or skipped steps within a task that continued */
};

static int32_t below(struct walk *walk, int32_t bound) {
    return (int32_t)tt_prng_below(&walk->random, (uint64_t)bound);
}

static void make_walker(struct walk *walk, struct walker *walker) {
    static const int32_t lengths[] = {1, 3, 5, MAX_LENGTH};
    *walker = (struct walker){.rows = 1 + below(walk, MAX_ROWS), .length = lengths[below(walk, 4)]};
    int32_t count = walker->rows * walker->length;
    for (int32_t i = 0; i < count; i++)
        walker->x[i] = (float)(2 * below(walk, 2000) - 1801) / 2000; /* never 0: Max of 0 and -0
                                                                      is either */
    walker->view = (struct tt_tensor_view){
        walker->x, (size_t)count * sizeof(float), {2, {walker->rows, walker->length}}};
    walker->route = route_of_all(walker);
}

static void launch(struct walk *walk, int32_t executor) {
    struct flight *flight = &walk->flights[executor];
    int32_t count = 0, step = -1, length = 0, start = below(walk, REQUESTS);
    for (int32_t i = 0; i < REQUESTS; i++) {
        struct walker *walker = &walk->walkers[(start + i) % REQUESTS];
        if (walker->flying || walker->gone || (step >= 0 && walker->step != step) ||
            (count > 0 && below(walk, 3) == 0))
            continue;
        step = walker->step;
        length = walker->length > length ? walker->length : length;
        walker->flying = true;
        flight->members[count] = (struct tt_engine_member){.rows = walker->rows,
                                                           .inputs = &walker->view,
                                                           .user = walker,
                                                           .state = walker->state,
                                                           .why = &flight->why[count]};
        count++;
    }
    if (count == 0)
        return;
    flight->task = (struct tt_engine_task){.model = walk->model,
                                           .head.executor = executor,
                                           .head.first_step = step,
                                           .head.last_step = step + below(walk, STAGES - step),
                                           .head.length = length,
                                           .member_count = count,
                                           .members = flight->members};
    flight->flying = true;
    tt_engine_submit(engine, &flight->task);
    int32_t dice = below(walk, 8);
    if (dice == 0)
        tt_engine_yield(engine, &flight->task);
    else if (dice == 1)
        tt_engine_abort(engine, &flight->task);
}

static void check_answer(const struct walker *walker, const struct tt_engine_member *member) {
    struct tt_tensor_view view;
    engine->ops->output(member->result, 0, member->first_row, member->rows, &view);
    assert_int_equal(view.shape.dims[0], walker->rows);
    int64_t padded = view.shape.dims[1];
    assert_true(padded >= walker->length);
    for (int32_t r = 0; r < walker->rows; r++) {
        for (int32_t i = 0; i < walker->length; i++) {
            float expected = answer_of(walker->route, walker->x[r * walker->length + i]);
            assert_memory_equal((const float *)view.bytes + r * padded + i, &expected,
                                sizeof(expected));
        }
    }
}

static void leave(struct walk *walk, struct walker *walker) {
    walker->gone = true;
    walk->left--;
}

static void land_one(struct walk *walk, const struct tt_engine_task *task,
                     struct tt_engine_member *member) {
    struct walker *walker = member->user;
    walker->flying = false;
    walker->state = member->state;
    if (task->head.outcome == TT_OUTCOME_ABORTED) {
        assert_int_equal(member->err, TT_ERR_CANCELLED);
        assert_int_equal(member->next_step, -1);
        assert_null(member->result);
        return; /* as if it had not been */
    }
    if (member->err)
        fail_msg("%s", member->why->text);
    bool alone = member->next_step >= 0;
    assert_true(member->skips == 0 || walker->route == SKIPS);
    walk->in_the_midst += alone && task->head.last_step_done > 3;
    walker->step = alone ? member->next_step : task->head.last_step_done + 1;
    if (walker->route == SKIPS)
        assert_true(walker->step <= 1 || walker->step >= 4);
    else if (walker->route == LEAVES)
        assert_true(walker->step <= 3 || walker->step == STAGES);
    assert_int_equal(walker->step == STAGES, member->result != NULL);
    if (member->result) {
        assert_null(member->state);
        check_answer(walker, member);
        engine->ops->result_release(member->result);
        walk->ended[walker->route]++;
        leave(walk, walker);
    } else if (below(walk, 40) == 0) { /* its client goes away */
        engine->ops->state_release(walker->state);
        leave(walk, walker);
    }
}

static void land(struct walk *walk, struct tt_engine_task *task) {
    struct flight *flight = TT_CONTAINER_OF(task, struct flight, task);
    flight->flying = false;
    for (int32_t i = 0; i < task->member_count; i++)
        land_one(walk, task, &flight->members[i]);
}

static void walk_once(struct walk *walk) {
    for (int32_t i = 0; i < REQUESTS; i++)
        make_walker(walk, &walk->walkers[i]);
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
}

/* Batches of any members, lengths and steps, yielded, aborted and cancelled, on two executors, with
 * slots in plenty and with hardly any. */
static void test_random_batches(void **state) {
    (void)state;
    uint64_t seed = test_seed(20261121);
    static const int32_t slots[] = {0, 7, 1};
    for (size_t s = 0; s < TT_COUNT(slots); s++) {
        struct walk *walk = test_calloc(1, sizeof(*walk));
        struct tt_error why;
        tt_prng_init(&walk->random, seed, s);
        if (load(exits, TT_COUNT(exits), slots[s], &walk->model, &why))
            fail_msg("%s", why.text);
        for (int round = 0; round < 40; round++)
            walk_once(walk);
        print_message("%lld whole, %lld skip, %lld leave; %lld in the midst of tasks\n",
                      (long long)walk->ended[WHOLE], (long long)walk->ended[SKIPS],
                      (long long)walk->ended[LEAVES], (long long)walk->in_the_midst);
        for (int route = 0; route < 3; route++)
            assert_true(walk->ended[route] > 30);
        assert_true(walk->in_the_midst > 30);
        engine->ops->unload(walk->model); /* which asserts that no slot is left behind */
        test_free(walk);
    }
}

/* A task with `together` runs every stage, whatever the conditions are. */
static void test_together(void **state) {
    (void)state;
    struct tt_engine_model *model;
    struct tt_error why = {{0}};
    assert_int_equal(load(exits, TT_COUNT(exits), 0, &model, &why), TT_OK);
    static const float x[] = {-0.9f}; /* skips */
    struct tt_tensor_view view = {x, sizeof(x), {2, {1, 1}}};
    struct tt_engine_member member = {.rows = 1, .inputs = &view, .why = &why};
    for (int32_t s = 0; s < STAGES; s++) {
        struct tt_engine_task task = {.model = model,
                                      .head.first_step = s,
                                      .head.last_step = s,
                                      .member_count = 1,
                                      .members = &member,
                                      .together = true};
        tt_engine_submit(engine, &task);
        assert_ptr_equal(bench_wait(&bench), &task);
        assert_int_equal(member.err, TT_OK);
        assert_int_equal(member.next_step, -1);
    }
    struct tt_tensor_view answer;
    engine->ops->output(member.result, 0, 0, 1, &answer);
    assert_float_equal(*(const float *)answer.bytes, answer_of(WHOLE, x[0]), 0);
    engine->ops->result_release(member.result);
    engine->ops->unload(model);
}

/* ---- what is refused ---- */

static void expect_refused(struct tt_engine_exit wanted, const char *says) {
    struct tt_engine_model *model;
    struct tt_error why = {{0}};
    assert_int_equal(load(&wanted, 1, 0, &model, &why), TT_ERR_INVALID);
    if (!strstr(why.text, says))
        fail_msg("'%s' lacks '%s'", why.text, says);
}

static void test_refused(void **state) {
    (void)state;
    struct tt_engine_exit exit = exits[1];
    exit.step = STAGES - 1;
    expect_refused(exit, "an exit can follow stages 0 to 4");
    exit = exits[0];
    exit.to = 2;
    expect_refused(exit, "to skip stages it must be 3 to 5");
    exit = exits[0];
    exit.condition = "far";
    expect_refused(exit, "no output 'far'");
    exit = exits[0];
    exit.step = 0; /* its graph reads s1 */
    exit.to = 4;
    expect_refused(exit, "'s1' is not available there");
    exit = exits[1];
    exit.give_count = 0;
    expect_refused(exit, "nothing gives 'y'");
    exit = exits[1];
    exit.moved = "s5";
    expect_refused(exit, "moved.tensor 's5'");
    static const struct tt_engine_give unneeded[] = {{"y", "early"}, {"s2", "s1"}};
    exit = exits[1];
    exit.gives = unneeded;
    exit.give_count = 2;
    expect_refused(exit, "gives 's2', which the request does not need after this exit");
    exit = exits[1];
    exit.graph = "/nowhere/head.onnx";
    struct tt_engine_model *model;
    struct tt_error why = {{0}};
    assert_true(load(&exit, 1, 0, &model, &why) != TT_OK);
    assert_non_null(strstr(why.text, "the exit after stage 3: /nowhere/head.onnx"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_batches),
        cmocka_unit_test(test_together),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
