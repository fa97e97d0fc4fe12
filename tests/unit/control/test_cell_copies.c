/* threaded */
/* C6: which bytes a task of cells copies and which it reads where they lie, counted byte for byte.
 * (That the answers are the same either way is test_cell_serving.c's.) */
#include "engine/onnxruntime/onnxruntime.h"
#include "model/cells/cells.h"
#include "unit/control/cell_folder.h"
#include "unit/engine/engine_bench.h"

#include <string.h>

enum { ROWS = 4, SLOTS = 64, STATES = 2 * SIZE * 4, WORDS_OF_ALL = ROWS * 8 };

static struct tt_ort_library *library;
static struct bench bench;
static struct tt_engine *engine;
static struct tt_cells *cells;
static struct tt_engine_model *model;
static int64_t words[ROWS][3] = {{3, 1, 4}, {1, 5, 9}, {2, 6, 5}, {3, 5, 8}};
static struct tt_engine_elements inputs[ROWS];

static void open_cells(void) {
    struct tt_model_settings *settings = NULL;
    struct tt_findings findings = {0};
    char directory[128], path[160];
    make_cells_under("chain", CHAIN, "", NULL);
    snprintf(directory, sizeof(directory), "%s/chain", root);
    snprintf(path, sizeof(path), "%s/tutti.pbtxt", directory);
    assert_int_equal(tt_model_settings_open(path, &settings, &findings), TT_OK);
    snprintf(path, sizeof(path), "%s/1", directory);
    assert_int_equal(tt_cells_open(settings, directory, path, &cells, &findings), TT_OK);
    if (!cells)
        fail_msg("%s", tt_findings_first_problem(&findings));
    tt_model_settings_free(settings);
    tt_findings_fini(&findings);
}

static int open_all(void **state) {
    struct tt_error why = {{0}};
    int err = set_up(state);
    open_cells();
    library = bench_library();
    bench_init(&bench);
    struct tt_engine_options options = {1, BENCH_DEPTH, bench_done, &bench};
    assert_int_equal(tt_ort_engine_open(library, &options, &engine, &why), TT_OK);
    struct tt_ort_cells_options load = {.name = "chain", .cells = cells, .slot_count = SLOTS};
    if (tt_ort_engine_load_cells(engine, &load, &model, &why))
        fail_msg("%s", why.text);
    for (int i = 0; i < ROWS; i++)
        inputs[i] = (struct tt_engine_elements){words[i], sizeof(words[i])};
    return err;
}

static int close_all(void **state) {
    engine->ops->unload(model);
    engine->ops->close(engine);
    bench_fini(&bench);
    tt_ort_library_close(library);
    tt_cells_close(cells);
    return tear_down(state);
}

/* Four requests' cells, row r from slot `sources[r]` to slot `to` + r. */
static struct tt_engine_task task_of(struct tt_engine_cell *row, const int32_t *sources,
                                     int32_t to) {
    for (int32_t r = 0; r < ROWS; r++)
        row[r] = (struct tt_engine_cell){.inputs = &inputs[r],
                                         .element = r % 3,
                                         .slot = to + r,
                                         .sources = {sources[r]},
                                         .is_read = true};
    return (struct tt_engine_task){
        .model = model, .kind = TT_ENGINE_CELLS, .member_count = ROWS, .cells = row};
}

static void assert_bytes(struct tt_engine_task *task, int64_t gathered, int64_t spared) {
    bench_run(&bench, task);
    assert_int_equal(task->head.outcome, TT_OUTCOME_DONE);
    for (int32_t r = 0; r < ROWS; r++)
        assert_int_equal(task->cells[r].err, TT_OK);
    assert_int_equal(task->gathered_bytes, gathered);
    assert_int_equal(task->spared_bytes, spared);
}

static void run(const int32_t *sources, int32_t to, int64_t gathered, int64_t spared) {
    struct tt_engine_cell row[ROWS];
    struct tt_engine_task task = task_of(row, sources, to);
    assert_bytes(&task, gathered, spared);
}

#define FROM(...) ((const int32_t[ROWS]){__VA_ARGS__})

/* Words of four requests never lie side by side, and are copied always. */
static void test_in_place_or_gathered(void **state) {
    (void)state;
    run(FROM(-1, -1, -1, -1), 0, WORDS_OF_ALL, ROWS * STATES);    /* all begin */
    run(FROM(0, 1, 2, 3), 8, WORDS_OF_ALL, ROWS * STATES);        /* the same go on */
    run(FROM(8, 10, 9, 11), 0, WORDS_OF_ALL + ROWS * STATES, 0);  /* in another order */
    run(FROM(0, 1, 2, -1), 8, WORDS_OF_ALL + ROWS * STATES, 0);   /* one begins */
    run(FROM(8, 9, 10, 12), 16, WORDS_OF_ALL + ROWS * STATES, 0); /* there is a hole */
}

/* Only cells that move are copied, once per direction. */
static void test_movers(void **state) {
    (void)state;
    struct tt_engine_cell row[ROWS];
    run(FROM(-1, -1, -1, -1), 0, WORDS_OF_ALL, ROWS * STATES);
    struct tt_engine_task task = task_of(row, FROM(0, 1, -1, 3), 8);
    row[2].moves_in = true; /* a new member takes the row of one that has left */
    row[2].staging_slot = 2;
    assert_bytes(&task, WORDS_OF_ALL + STATES, (ROWS - 1) * STATES);

    task = task_of(row, FROM(8, 9, 10, 11), 16);
    row[1].slot = 40; /* a member about to leave is written elsewhere */
    row[1].moves_out = true;
    row[1].exit = 17;
    assert_bytes(&task, WORDS_OF_ALL + STATES, ROWS * STATES);

    task = task_of(row, FROM(16, 40, 18, 19), 24); /* and back, and out again */
    row[1].moves_in = row[1].moves_out = true;
    row[1].staging_slot = 17;
    row[1].exit = 25;
    row[1].slot = 41;
    assert_bytes(&task, WORDS_OF_ALL + 2 * STATES, (ROWS - 1) * STATES);

    task = task_of(row, FROM(24, 41, 26, 27), 32); /* its last cell: only the answer, h, moves */
    row[1].moves_in = row[1].moves_out = true;
    row[1].is_read = false;
    row[1].staging_slot = 25;
    row[1].exit = 33;
    row[1].slot = 42;
    assert_bytes(&task, WORDS_OF_ALL + STATES + STATES / 2, (ROWS - 1) * STATES);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_in_place_or_gathered, open_all, close_all),
        cmocka_unit_test_setup_teardown(test_movers, open_all, close_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
