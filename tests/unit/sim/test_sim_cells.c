/* C3: the cells of a simulated request: written trees and the errors of some, balanced and random
 * ones, and rows of steps. */
#include "sim/sim_cells.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct tt_step pair[] = {{.name = "leaf"}, {.name = "inner"}};
static const struct tt_step_model tree_model = {.step_count = 2, .steps = pair};

/* The tree as parentheses, from the result of the unfolding. */
static void write_node(const struct tt_sim_cells *cells, int32_t spec, char *text) {
    strcat(text, "(");
    for (int32_t i = 0; i < cells->specs[spec].source_count; i++)
        write_node(cells, cells->specs[spec].sources[i], text);
    strcat(text, ")");
}

static void expect_text(const char *given, const char *shape) {
    struct tt_sim_cells cells = {0};
    struct tt_cell_graph *graph;
    struct tt_error why;
    char text[400] = "";
    assert_int_equal(tt_sim_cells_text(&cells, &tree_model, given, &graph, &why), TT_OK);
    for (int32_t i = 0; i < graph->spec_count; i++)
        assert_int_equal(cells.specs[i].first_step, cells.specs[i].source_count > 0);
    write_node(&cells, graph->spec_count - 1, text);
    assert_string_equal(text, shape);
    tt_cell_graph_free(graph);
    tt_sim_cells_fini(&cells);
}

static void a_written_tree_is_what_is_written(void **state) {
    (void)state;
    expect_text("()", "()");
    expect_text("word", "()");
    expect_text("(()())", "(()())");
    expect_text("(a b)", "(()())");
    expect_text("  ( a ( b c ) )  ", "(()(()()))");
    expect_text("(()(()()))", "(()(()()))");
    expect_text("((a(b c))(d e))", "((()(()()))(()()))");
}

static void expect_refusal(const char *given, const char *says) {
    struct tt_sim_cells cells = {0};
    struct tt_cell_graph *graph = NULL;
    struct tt_error why;
    assert_int_equal(tt_sim_cells_text(&cells, &tree_model, given, &graph, &why), TT_ERR_INVALID);
    assert_null(graph);
    if (!strstr(why.text, says))
        fail_msg("'%s': \"%s\" does not say \"%s\"", given, why.text, says);
    tt_sim_cells_fini(&cells);
}

static void what_is_no_tree_is_refused_where_it_is_wrong(void **state) {
    (void)state;
    expect_refusal("(()", "'(()' is not one tree");
    expect_refusal("(", "'(' is not one tree");
    expect_refusal("   ", "is not one tree");
    expect_refusal("()()", "'()()' is not one tree");
    expect_refusal("a b", "'a b' is not one tree");
    expect_refusal(")", "the ')' at character 1 closes nothing");
    expect_refusal("())", "the ')' at character 3 closes nothing");
    expect_refusal("(a)", "the node that ends at character 3 has 1 children");
    expect_refusal("(()()())", "the node that ends at character 8 has 3 children");
    expect_refusal("((a b) (c d e))", "the node that ends at character 14 has 3 children");
    size_t length = TT_CELL_GRAPH_MAX_CELLS + 1;
    char *large = malloc(length + 1);
    assert_non_null(large);
    memset(large, '(', length);
    large[length] = '\0';
    expect_refusal(large, "a tree of 1048577 characters; at most 1048576");
    large[length - 1] = '\0';
    expect_refusal(large, "is not one tree");
    free(large);
}

static void expect_balanced(int32_t leaves, const char *shape) {
    struct tt_sim_cells cells = {0};
    struct tt_cell_graph *graph;
    struct tt_error why;
    char text[400] = "";
    assert_int_equal(
        tt_sim_cells_tree(&cells, &tree_model, TT_TREE_BALANCED, leaves, 1, &graph, &why), TT_OK);
    write_node(&cells, graph->spec_count - 1, text);
    assert_string_equal(text, shape);
    tt_cell_graph_free(graph);
    tt_sim_cells_fini(&cells);
}

static void the_left_half_takes_the_odd_leaf(void **state) {
    (void)state;
    expect_balanced(0, "()"); /* at least one leaf */
    expect_balanced(1, "()");
    expect_balanced(2, "(()())");
    expect_balanced(3, "((()())())");
    expect_balanced(4, "((()())(()()))");
    expect_balanced(5, "(((()())())(()()))");
    expect_balanced(7, "(((()())(()()))((()())()))");
}

static void drawn_trees_have_all_their_leaves_and_come_again(void **state) {
    (void)state;
    for (int32_t leaves = 1; leaves < 60; leaves++) {
        char text[2][400] = {"", ""};
        for (int i = 0; i < 2; i++) {
            struct tt_sim_cells cells = {0};
            struct tt_cell_graph *graph;
            assert_int_equal(
                tt_sim_cells_tree(&cells, &tree_model, TT_TREE_RANDOM, leaves, 7, &graph, NULL),
                TT_OK);
            assert_int_equal(graph->spec_count, 2 * leaves - 1);
            assert_int_equal(graph->subgraph_count, leaves + (leaves > 1));
            write_node(&cells, graph->spec_count - 1, text[i]);
            tt_cell_graph_free(graph);
            tt_sim_cells_fini(&cells);
        }
        assert_string_equal(text[0], text[1]);
    }
}

/* Static, two encoder steps as one, static, a decoder whose longest output is 7. */
static void steps_are_a_row_of_chains(void **state) {
    (void)state;
    const struct tt_step steps[] = {{.name = "in"},
                                    {.name = "e", .kind = TT_STEP_ENCODER},
                                    {.name = "f", .kind = TT_STEP_ENCODER},
                                    {.name = "middle"},
                                    {.name = "d", .kind = TT_STEP_DECODER}};
    int32_t quantiles[TT_QUANTILES];
    for (int32_t p = 0; p < TT_QUANTILES; p++)
        quantiles[p] = p == TT_QUANTILES - 1 ? 7 : 3;
    const struct tt_step_model model = {
        .step_count = 5, .steps = steps, .output_quantiles = quantiles};
    struct tt_sim_cells cells = {0};
    struct tt_cell_graph *graph;
    assert_int_equal(
        tt_sim_cells_steps(&cells, &model, 4, (struct tt_sim_exit){-1, 0}, &graph, NULL), TT_OK);
    assert_int_equal(graph->subgraph_count, 4);
    const int32_t counts[] = {1, 4, 1, 7}, first[] = {0, 1, 3, 4}, last[] = {0, 2, 3, 4};
    for (int32_t i = 0; i < 4; i++) {
        assert_int_equal(graph->subgraphs[i].count, counts[i]);
        assert_int_equal(graph->subgraphs[i].first_step, first[i]);
        assert_int_equal(graph->subgraphs[i].last_step, last[i]);
        assert_int_equal(graph->subgraphs[i].open_ended, i == 3);
        assert_int_equal(graph->subgraphs[i].waits_for, i > 0);
    }
    tt_cell_graph_free(graph);

    /* A request that leaves has one cell more than those that do not run its step. */
    const struct {
        struct tt_sim_exit exit;
        int32_t subgraphs, cells;
    } leavers[] = {{{0, 0}, 1, 1}, {{1, 0}, 2, 2}, {{2, 0}, 2, 2}, {{3, 0}, 3, 6},
                   {{4, 0}, 4, 7}, {{0, 3}, 3, 9}, {{0, 4}, 2, 8}};
    for (size_t i = 0; i < TT_COUNT(leavers); i++) {
        assert_int_equal(tt_sim_cells_steps(&cells, &model, 4, leavers[i].exit, &graph, NULL),
                         TT_OK);
        assert_int_equal(graph->subgraph_count, leavers[i].subgraphs);
        assert_int_equal(graph->cell_count, leavers[i].cells);
        tt_cell_graph_free(graph);
    }
    tt_sim_cells_fini(&cells);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_written_tree_is_what_is_written),
        cmocka_unit_test(what_is_no_tree_is_refused_where_it_is_wrong),
        cmocka_unit_test(the_left_half_takes_the_odd_leaf),
        cmocka_unit_test(drawn_trees_have_all_their_leaves_and_come_again),
        cmocka_unit_test(steps_are_a_row_of_chains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
