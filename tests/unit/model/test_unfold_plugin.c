/* C2: plug-ins, correct (examples/unfold/bidirectional.c) and faulty (tests/plugins/faulty.c). */
#include "model/cells/unfold.h"

#include "base/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "unit/model/cell_models.h"
#include "unit/seed.h"

enum { LENGTH = 5 };

static void put_pair_files(void) {
    put_cell_files();
    put_cell_file("pair.onnx", "in:a:1:N,4 in:b:1:N,4 out:h:1:N,4 out:other:1:N,5", "pair");
}

/* Only plug-ins that are slow on purpose have a short time limit. */
static const char *faulty(const char *build, const char *parameter) {
    static char text[2048];
    bool slow = strcmp(parameter, "slow") == 0 || strcmp(parameter, "late") == 0;
    snprintf(text, sizeof(text),
             "cell { file: 'lstm.onnx' " READ STATES "} "
             "cell { file: 'pair.onnx' state { output: 'h' input: 'a' input: 'b' } } "
             "unfold { kind: PLUGIN plugin: '%s/tests/plugins/%s.so' parameter: '%s' "
             "max_cells: 100 time_limit_us: %d answer: 'h' }",
             TUTTI_BUILD_DIR, build, parameter, slow ? 20000 : 600000000);
    return text;
}

static enum tt_err run(const struct tt_cells *cells, struct tt_unfolded **out_unfolded,
                       struct tt_error *why) {
    static const int64_t tokens[LENGTH] = {1, 2, 3, 4, 5};
    struct tt_unfold_tensor tensor = {.bytes = tokens, .shape = {.rank = 2, .dims = {1, LENGTH}}};
    return tt_unfold_new(cells, &tensor, out_unfolded, why);
}

static void test_both_ends(void **state) {
    (void)state;
    put_pair_files();
    struct tt_cells *cells = open_cells(
        "cell { file: 'encoder.onnx' " READ STATES "} cell { file: 'lstm.onnx' " READ STATES "} "
        "cell { file: 'pair.onnx' state { output: 'h' input: 'a' input: 'b' } } "
        "unfold { kind: PLUGIN answer: 'h' plugin: '" TUTTI_BUILD_DIR
        "/examples/unfold/bidirectional.so' }");
    struct tt_unfolded *unfolded = NULL;
    struct tt_error why = {""};
    assert_int_equal(run(cells, &unfolded, &why), TT_OK);
    assert_int_equal(unfolded->spec_count, 3);
    for (int32_t i = 0; i < LENGTH; i++) {
        assert_int_equal(tt_unfold_element(unfolded, 0, i), i);
        assert_int_equal(tt_unfold_element(unfolded, 1, i), LENGTH - 1 - i);
    }
    assert_int_equal(unfolded->answer_spec, 2);
    assert_int_equal(unfolded->specs[2].first_step, 2);
    assert_int_equal(unfolded->specs[2].source_count, 2);
    assert_int_equal(unfolded->specs[2].sources[0], 0);
    assert_int_equal(unfolded->specs[2].sources[1], 1);
    tt_unfold_free(unfolded);
    tt_cells_close(cells);
    assert_problem(CHAIN "unfold { kind: PLUGIN plugin: '" TUTTI_BUILD_DIR
                         "/examples/unfold/bidirectional.so' }",
                   "it wants 3 cells");
}

static void test_plugins_that_cannot_be_opened(void **state) {
    (void)state;
    put_pair_files();
    assert_problem(CHAIN "unfold { kind: PLUGIN }", "PLUGIN wants plugin");
    assert_problem(CHAIN "unfold { kind: PLUGIN plugin: 'lost.so' }", "lost.so");
    put_bytes("text.so", "no object", 9);
    assert_problem(CHAIN "unfold { kind: PLUGIN plugin: 'text.so' }", "text.so");
    assert_problem(CHAIN "unfold { kind: PLUGIN plugin: 'x.so' time_limit_us: -1 }",
                   "time_limit_us");
    assert_problem(faulty("faulty_symbol", ""), "there is no function tutti_unfold_plugin");
    assert_problem(faulty("faulty_version", ""), "is of version 999");
    assert_problem(faulty("faulty_null", ""), "returned NULL");
    assert_problem(faulty("faulty_table", ""), "no function `unfold`");
    assert_problem(faulty("faulty", "refuse model"), "the parameter is refuse");
    assert_problem(faulty("faulty", "refuse model silently"), "it gives no reason");
}

static void test_what_plugins_do_wrong(void **state) {
    (void)state;
    put_pair_files();
    const struct {
        const char *what, *problem;
    } cases[] = {
        {"fail", "'faulty': it failed with 77"},
        {"refuse", "'faulty': there is no such word"},
        {"nothing", "it made no cell"},
        {"many", "more than the 100 cells"},
        {"deaf", "more than the 100 cells"},
        {"slow", "it took longer than 20000 us"},
        {"late", "it took longer than 20000 us"},
        {"open end", "have an open end, but emit nothing"},
        {"chain last", "of type 'lstm', which lacks an output of the answer"},
        {"type", "cells 1 are of type 2"},
        {"count", "cells 1 are a chain of 0"},
        {"far", "cells 1 read elements from 1 on, 5 of them; the request has 0 to 4"},
        {"overflow", "cells 1 read elements from 9223372036854775807"},
        {"stride", "stride 2"},
        {"chain of pairs", "cells 1 are a chain of 'pair', which reads 2 others"},
        {"arity", "cells 1 read 1 others, but 'pair' reads 2 or none"},
        {"cycle", "cells 1 read cells 1, which are not there yet"},
        {"wild", "cells 1 read cells -7"},
    };
    for (size_t i = 0; i < TT_COUNT(cases); i++) {
        struct tt_cells *cells = open_cells(faulty("faulty", cases[i].what));
        struct tt_unfolded *unfolded = NULL;
        struct tt_error why = {""};
        enum tt_err err = run(cells, &unfolded, &why);
        if (err != TT_ERR_INVALID || unfolded || !strstr(why.text, cases[i].problem))
            fail_msg("%s: %d, '%s' does not say: %s", cases[i].what, err, why.text,
                     cases[i].problem);
        tt_cells_close(cells);
    }
    struct tt_cells *cells = open_cells(faulty("faulty", "pair last"));
    struct tt_unfolded *unfolded = NULL;
    struct tt_error why = {""};
    assert_int_equal(run(cells, &unfolded, &why), TT_OK);
    assert_int_equal(unfolded->answer_spec, 2);
    tt_unfold_free(unfolded);
    tt_cells_close(cells);
}

/* What is not rejected is a graph of cells and elements that exist. */
static void test_random_graphs(void **state) {
    (void)state;
    put_pair_files();
    struct tt_cells *cells = open_cells(faulty("faulty", "random"));
    uint64_t seed = test_seed(19370101);
    struct tt_prng prng;
    tt_prng_init(&prng, seed, 0);
    int32_t good = 0, bad = 0;
    for (int32_t i = 0; i < 20000; i++) {
        int64_t tokens[LENGTH];
        for (int32_t k = 0; k < LENGTH; k++)
            tokens[k] = (int64_t)tt_prng_below(&prng, 100);
        struct tt_unfold_tensor tensor = {.bytes = tokens,
                                          .shape = {.rank = 2, .dims = {1, LENGTH}}};
        struct tt_unfolded *unfolded = NULL;
        struct tt_cell_graph *graph = NULL;
        struct tt_error why = {""};
        if (tt_unfold_new(cells, &tensor, &unfolded, &why)) {
            assert_non_null(strstr(why.text, "the unfold function 'faulty': "));
            bad++;
            continue;
        }
        for (int32_t k = 0; k < unfolded->spec_count; k++) {
            const struct tt_cell_spec *spec = &unfolded->specs[k];
            assert_in_range(tt_unfold_element(unfolded, k, 0), 0, LENGTH - 1);
            assert_in_range(tt_unfold_element(unfolded, k, spec->repeat - 1), 0, LENGTH - 1);
        }
        assert_int_equal(tt_cell_graph_new(unfolded->specs, unfolded->spec_count, cells->type_count,
                                           &graph, &why),
                         TT_OK);
        tt_cell_graph_check(graph);
        tt_cell_graph_free(graph);
        tt_unfold_free(unfolded);
        good++;
    }
    print_message("%d good, %d bad\n", good, bad);
    assert_true(good > 5000 && bad > 2000);
    tt_cells_close(cells);
}

static void copy_plugin(const char *name) {
    struct tt_text text;
    struct tt_error why;
    char path[512];
    snprintf(path, sizeof(path), "%s/%s.so", TUTTI_BUILD_DIR, name);
    assert_int_equal(tt_text_read_file(path, 64 << 20, &text, &why), TT_OK);
    put_bytes("mine.so", text.bytes, text.length);
    tt_text_fini(&text);
}

/* A plug-in is overwritten while it is in use: a model that has it keeps the old one, one that
 * opens it gets the new one. */
static void test_a_plugin_that_is_replaced(void **state) {
    (void)state;
    static const char text[] =
        "cell { file: 'encoder.onnx' " READ STATES "} cell { file: 'lstm.onnx' " READ STATES "} "
        "cell { file: 'pair.onnx' state { output: 'h' input: 'a' input: 'b' } } "
        "unfold { kind: PLUGIN answer: 'h' plugin: 'mine.so' parameter: 'fail' }";
    put_pair_files();
    copy_plugin("tests/plugins/faulty");
    struct tt_cells *before = open_cells(text);
    copy_plugin("examples/unfold/bidirectional");
    struct tt_cells *after = open_cells(text);
    struct tt_unfolded *unfolded = NULL;
    struct tt_error why = {""};
    assert_int_equal(run(before, &unfolded, &why), TT_ERR_INVALID);
    assert_non_null(strstr(why.text, "it failed with 77"));
    assert_int_equal(run(after, &unfolded, &why), TT_OK);
    tt_unfold_free(unfolded);
    tt_cells_close(before);
    tt_cells_close(after);
}

/* The state of one type does not fit the other. */
static void test_states_that_do_not_fit(void **state) {
    (void)state;
    put_pair_files();
    char text[2048];
    snprintf(text, sizeof(text),
             "cell { file: 'lstm.onnx' " READ STATES "} "
             "cell { file: 'odd.onnx' state { output: 'other' input: 'a' input: 'b' } } "
             "unfold { kind: PLUGIN plugin: '%s/tests/plugins/faulty.so' parameter: 'states' }",
             TUTTI_BUILD_DIR);
    put_cell_file("odd.onnx", "in:a:1:N,5 in:b:1:N,5 out:other:1:N,5", "");
    struct tt_cells *cells = open_cells(text);
    struct tt_unfolded *unfolded = NULL;
    struct tt_error why = {""};
    assert_int_equal(run(cells, &unfolded, &why), TT_ERR_INVALID);
    if (!strstr(why.text, "the states of 'lstm' are not those of 'odd'"))
        fail_msg("%s", why.text);
    tt_cells_close(cells);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_both_ends, make_cell_home, remove_cell_home),
        cmocka_unit_test_setup_teardown(test_plugins_that_cannot_be_opened, make_cell_home,
                                        remove_cell_home),
        cmocka_unit_test_setup_teardown(test_what_plugins_do_wrong, make_cell_home,
                                        remove_cell_home),
        cmocka_unit_test_setup_teardown(test_random_graphs, make_cell_home, remove_cell_home),
        cmocka_unit_test_setup_teardown(test_a_plugin_that_is_replaced, make_cell_home,
                                        remove_cell_home),
        cmocka_unit_test_setup_teardown(test_states_that_do_not_fit, make_cell_home,
                                        remove_cell_home),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
