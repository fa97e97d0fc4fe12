/* C2: chains, sequence-to-sequence, and trees; trees against a naive validator. */
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

enum { MAX_NODES = 12 };

static struct tt_unfold_tensor row(const int64_t *values, int64_t count) {
    return (struct tt_unfold_tensor){.bytes = values, .shape = {.rank = 2, .dims = {1, count}}};
}

static struct tt_unfolded *unfold(const struct tt_cells *cells,
                                  const struct tt_unfold_tensor *tensors) {
    struct tt_unfolded *unfolded = NULL;
    struct tt_error why = {""};
    if (tt_unfold_new(cells, tensors, &unfolded, &why))
        fail_msg("%s", why.text);
    return unfolded;
}

static void assert_refused(const struct tt_cells *cells, const struct tt_unfold_tensor *tensors,
                           const char *expected) {
    struct tt_unfolded *unfolded = NULL;
    struct tt_error why = {""};
    assert_int_equal(tt_unfold_new(cells, tensors, &unfolded, &why), TT_ERR_INVALID);
    assert_null(unfolded);
    if (!strstr(why.text, expected))
        fail_msg("'%s' does not say: %s", why.text, expected);
}

/* The graph can be made from it, and has as many cells. */
static void check_graph(const struct tt_cells *cells, const struct tt_unfolded *unfolded,
                        int32_t cell_count) {
    struct tt_cell_graph *graph = NULL;
    struct tt_error why = {""};
    if (tt_cell_graph_new(unfolded->specs, unfolded->spec_count, cells->type_count, &graph, &why))
        fail_msg("%s", why.text);
    tt_cell_graph_check(graph);
    assert_int_equal(graph->cell_count, cell_count);
    tt_cell_graph_free(graph);
}

static void test_a_chain(void **state) {
    (void)state;
    put_cell_files();
    struct tt_cells *cells = open_cells(CHAIN "unfold { max_length: 4 }");
    const int64_t tokens[] = {5, 0, 99, 100, -1};
    struct tt_unfolded *unfolded = unfold(
        cells, &(struct tt_unfold_tensor){.bytes = tokens, .shape = {.rank = 2, .dims = {1, 3}}});
    assert_int_equal(unfolded->spec_count, 1);
    assert_int_equal(unfolded->specs[0].repeat, 3);
    check_graph(cells, unfolded, 3);
    assert_int_equal(unfolded->specs[0].source_count, 0);
    assert_false(unfolded->specs[0].open_ended);
    assert_int_equal(tt_unfold_element(unfolded, 0, 2), 2);
    assert_int_equal(unfolded->answer_spec, 0);
    assert_int_equal(unfolded->input_length, 3);
    assert_int_equal(unfolded->output_length, 0);
    tt_unfold_free(unfolded);
    struct tt_unfold_tensor tensor = row(tokens, 4);
    assert_refused(cells, &tensor, "element 3 of input 'tokens' is 100; 0 to 99 are possible");
    tensor = row(tokens + 4, 1);
    assert_refused(cells, &tensor, "element 0 of input 'tokens' is -1");
    tensor = row(tokens, 5);
    assert_refused(cells, &tensor, "input 'tokens' has 5 elements; this model takes at most 4");
    tensor = row(tokens, 0);
    assert_refused(cells, &tensor, "input 'tokens' is empty");
    tensor.shape.dims[0] = 2;
    assert_refused(cells, &tensor, "input 'tokens' has 2 rows");
    tt_cells_close(cells);
}

/* Against the definition: the last of ceil(n / elements) cells begins within the request. */
static void test_chunks_of_elements(void **state) {
    (void)state;
    put_chunk_files();
    int64_t tokens[13];
    for (int64_t i = 0; i < 13; i++)
        tokens[i] = i;
    struct tt_cells *chain = open_cells(CHUNKS "emit: 'h_out' } unfold { max_length: 12 }");
    struct tt_cells *pair =
        open_cells(CHUNKS "} " WRITER "unfold { kind: SEQ2SEQ threshold: 3 max_length: 12 }");
    for (int32_t length = 1; length <= 12; length++) {
        int32_t count = 0;
        while (count * 4 < length)
            count++;
        struct tt_unfold_tensor tensor = row(tokens, length);
        struct tt_unfolded *unfolded = unfold(chain, &tensor);
        assert_int_equal(unfolded->specs[0].repeat, count);
        assert_int_equal(tt_unfold_element(unfolded, 0, count - 1), count - 1);
        assert_int_equal(unfolded->input_length, length);
        assert_int_equal(unfolded->output_length, count); /* one row per cell */
        check_graph(chain, unfolded, count);
        tt_unfold_free(unfolded);
        unfolded = unfold(pair, &tensor);
        assert_int_equal(unfolded->specs[0].repeat, count);
        assert_int_equal(unfolded->specs[1].repeat, length + 3);
        assert_int_equal(unfolded->output_length, length + 3);
        assert_int_equal(unfolded->input_length, length);
        tt_unfold_free(unfolded);
    }
    struct tt_unfold_tensor tensor = row(tokens, 13);
    assert_refused(chain, &tensor, "has 13 elements; this model takes at most 12");
    tokens[6] = 100;
    tensor = row(tokens, 7);
    assert_refused(chain, &tensor, "element 6 of input 'tokens' is 100; 0 to 99 are possible");
    tensor = row(tokens, 6); /* what follows is not of the request */
    tt_unfold_free(unfold(chain, &tensor));
    tokens[6] = -1; /* the value that fills: not for clients */
    tensor = row(tokens, 7);
    assert_refused(pair, &tensor, "element 6 of input 'tokens' is -1");
    tt_cells_close(chain);
    tt_cells_close(pair);
}

/* Two tensors of equal length, one of vectors and one of bytes. */
static void test_elements_of_several_tensors(void **state) {
    (void)state;
    put_cell_file("cell.onnx", "in:sound:1:N,3 in:kind:2:N,2 in:h:1:N,4 out:y:1:N,4", "");
    struct tt_cells *cells = open_cells("cell { file: 'cell.onnx' read { input: 'sound' } "
                                        "read { input: 'kind' below: 9 } "
                                        "state { output: 'y' input: 'h' } emit: 'y' } unfold { }");
    const uint8_t kinds[] = {0, 1, 2, 8, 0, 9};
    const float sound[9] = {0};
    struct tt_unfold_tensor tensors[] = {
        {.bytes = sound, .shape = {.rank = 3, .dims = {1, 2, 3}}},
        {.bytes = kinds, .shape = {.rank = 3, .dims = {1, 2, 2}}},
    };
    struct tt_unfolded *unfolded = unfold(cells, tensors);
    assert_int_equal(unfolded->output_length, 2); /* each cell emits a row */
    tt_unfold_free(unfolded);
    tensors[0].shape.dims[1] = 3;
    assert_refused(cells, tensors, "input 'kind' has 2 elements, but input 'sound' has 3");
    tensors[1].shape.dims[1] = 3;
    assert_refused(cells, tensors, "element 2 of input 'kind' is 9");
    tt_cells_close(cells);
}

static void test_sequence_to_sequence(void **state) {
    (void)state;
    put_cell_files();
    const int64_t tokens[5] = {3, 4, 5, 6, 7};
    const struct {
        const char *unfold;
        int32_t length, most;
        bool open_ended;
    } cases[] = {
        {SEQ2SEQ "unfold { kind: SEQ2SEQ eos: 2 threshold: 10 }", 5, 15, true},
        {SEQ2SEQ "unfold { kind: SEQ2SEQ eos: 2 threshold: 10 max_output: 7 }", 5, 7, true},
        {SEQ2SEQ "unfold { kind: SEQ2SEQ eos: 2 threshold: 1 max_output: 7 }", 1, 2, true},
        {SEQ2SEQ "unfold { kind: SEQ2SEQ }", 4, 4, false},
    };
    for (size_t i = 0; i < TT_COUNT(cases); i++) {
        struct tt_cells *cells = open_cells(cases[i].unfold);
        struct tt_unfold_tensor tensor = row(tokens, cases[i].length);
        struct tt_unfolded *unfolded = unfold(cells, &tensor);
        assert_int_equal(unfolded->spec_count, 2);
        assert_int_equal(unfolded->specs[0].repeat, cases[i].length);
        assert_int_equal(unfolded->specs[1].first_step, 1);
        assert_int_equal(unfolded->specs[1].repeat, cases[i].most);
        assert_int_equal(unfolded->specs[1].open_ended, cases[i].open_ended);
        assert_int_equal(unfolded->specs[1].source_count, 1);
        assert_int_equal(unfolded->specs[1].sources[0], 0);
        assert_int_equal(unfolded->answer_spec, 1);
        assert_int_equal(unfolded->output_length, cases[i].most);
        check_graph(cells, unfolded, cases[i].length + cases[i].most);
        tt_unfold_free(unfolded);
        tt_cells_close(cells);
    }
}

/* ---- trees ---- */

struct tree {
    int64_t tokens[MAX_NODES], left[MAX_NODES], right[MAX_NODES];
    int32_t count;
};

static void tensors_of(const struct tree *tree, struct tt_unfold_tensor *out) {
    out[0] = row(tree->tokens, tree->count);
    out[1] = row(tree->left, tree->count);
    out[2] = row(tree->right, tree->count);
}

/* From the definition: from one node every node is reached exactly once, each has two children or
 * none, and all numbers are those of nodes. */
static int32_t visit(const struct tree *tree, int64_t node, int32_t *times) {
    if (node < 0 || node >= tree->count || times[node]++ > 0)
        return -1;
    if (tree->left[node] == -1 && tree->right[node] == -1)
        return 1;
    int32_t left = visit(tree, tree->left[node], times);
    int32_t right = left < 0 ? -1 : visit(tree, tree->right[node], times);
    return right < 0 ? -1 : 1 + left + right;
}

static int32_t naive_root(const struct tree *tree) {
    for (int32_t root = 0; root < tree->count; root++) {
        int32_t times[MAX_NODES] = {0};
        if (visit(tree, root, times) == tree->count)
            return root;
    }
    return -1;
}

static uint64_t mix(uint64_t a, uint64_t b, uint64_t c) {
    return (a * 0x9e3779b97f4a7c15u + b) * 0xbf58476d1ce4e5b9u + c + 1;
}

/* The value of a tree whose leaves have the values of their tokens. */
static uint64_t naive_value(const struct tree *tree, int64_t node) {
    if (tree->left[node] < 0)
        return mix(1, (uint64_t)tree->tokens[node], 0);
    return mix(2, naive_value(tree, tree->left[node]), naive_value(tree, tree->right[node]));
}

static uint64_t unfolded_value(const struct tree *tree, const struct tt_unfolded *unfolded) {
    uint64_t values[MAX_NODES];
    bool inner_seen = false;
    for (int32_t i = 0; i < unfolded->spec_count; i++) {
        const struct tt_cell_spec *spec = &unfolded->specs[i];
        assert_int_equal(spec->first_step, spec->last_step);
        assert_int_equal(spec->repeat, 1);
        assert_false(spec->open_ended);
        assert_false(inner_seen && spec->first_step == 0); /* leaves first */
        inner_seen |= spec->first_step == 1;
        assert_int_equal(spec->source_count, spec->first_step == 0 ? 0 : 2);
        for (int32_t k = 0; k < spec->source_count; k++)
            assert_in_range(spec->sources[k], 0, i - 1);
        values[i] = spec->first_step == 0
                        ? mix(1, (uint64_t)tree->tokens[tt_unfold_element(unfolded, i, 0)], 0)
                        : mix(2, values[spec->sources[0]], values[spec->sources[1]]);
    }
    return values[unfolded->answer_spec];
}

static void check_tree(const struct tt_cells *cells, const struct tree *tree, int32_t *good,
                       int32_t *bad) {
    struct tt_unfold_tensor tensors[3];
    struct tt_unfolded *unfolded = NULL;
    struct tt_error why = {""};
    tensors_of(tree, tensors);
    enum tt_err err = tt_unfold_new(cells, tensors, &unfolded, &why);
    int32_t root = naive_root(tree);
    assert_int_equal(err, root >= 0 ? TT_OK : TT_ERR_INVALID);
    ++*(root >= 0 ? good : bad);
    if (root < 0) {
        assert_non_null(strstr(why.text, "input"));
        return;
    }
    assert_int_equal(unfolded->spec_count, tree->count);
    check_graph(cells, unfolded, tree->count);
    assert_true(unfolded_value(tree, unfolded) == naive_value(tree, root));
    tt_unfold_free(unfolded);
}

static void test_a_tree(void **state) {
    (void)state;
    put_cell_files();
    struct tt_cells *cells = open_cells(TREE "unfold { kind: TREE max_length: 7 }");
    /* ((a b) c), with the root in the middle. The token of an inner node is not read. */
    struct tree tree = {.tokens = {11, 12, -5, 13, -5},
                        .left = {-1, -1, 4, -1, 0},
                        .right = {-1, -1, 3, -1, 1},
                        .count = 5};
    struct tt_unfold_tensor tensors[3];
    tensors_of(&tree, tensors);
    struct tt_unfolded *unfolded = unfold(cells, tensors);
    assert_int_equal(unfolded->spec_count, 5);
    assert_int_equal(unfolded->answer_spec, 4);
    assert_int_equal(tt_unfold_element(unfolded, 4, 0), 2);
    assert_true(unfolded_value(&tree, unfolded) == naive_value(&tree, 2));
    tt_unfold_free(unfolded);

    const struct {
        int32_t node, left, right, count;
        const char *problem;
    } cases[] = {
        {4, 0, 0, 5, "element 4 of input 'right': node 0 is a child of node 4 already"},
        {4, 0, 3, 5, "is a child of node 2 already"},
        {4, 0, 7, 5, "element 4 of input 'right' is 7; a child is the number of a node, 0 to 4"},
        {4, -2, 1, 5, "element 4 of input 'left' is -2"},
        {4, -1, 1, 5, "element 4 of input 'left' is -1: node 4 has 1 of the 2 children"},
        {4, -1, -1, 5, "nodes 0 and 1 both have no parent"},
        {0, 1, 2, 3, "is 4; a child is"},
        {2, -1, -1, 5, "nodes 2 and 3 both have no parent"},
        {1, 2, 3, 5, "node 3 is a child of node 1 already"},
    };
    for (size_t i = 0; i < TT_COUNT(cases); i++) {
        struct tree wrong = tree;
        wrong.left[cases[i].node] = cases[i].left;
        wrong.right[cases[i].node] = cases[i].right;
        wrong.count = cases[i].count;
        tensors_of(&wrong, tensors);
        assert_refused(cells, tensors, cases[i].problem);
    }
    struct tree cycle = {.left = {-1, 2, 1, 2}, .right = {-1, 3, 0, 1}, .count = 4};
    cycle.left[2] = 3, cycle.right[2] = 1, cycle.left[1] = 2, cycle.right[1] = 0;
    cycle.left[3] = -1, cycle.right[3] = -1;
    tensors_of(&cycle, tensors);
    assert_refused(cells, tensors, "every node is a child of another one");
    struct tree apart = {.left = {-1, 3, 1, -1, -1}, .right = {-1, 2, 4, -1, -1}, .count = 5};
    tensors_of(&apart, tensors);
    assert_refused(cells, tensors, "is its own ancestor");
    tree.tokens[3] = 100;
    tensors_of(&tree, tensors);
    assert_refused(cells, tensors, "element 3 of input 'tokens' is 100");
    tt_cells_close(cells);
}

/* Every pair of arrays of up to 3 nodes, valid and invalid. */
static void test_small_trees_exhausted(void **state) {
    (void)state;
    put_cell_files();
    struct tt_cells *cells = open_cells(TREE "unfold { kind: TREE }");
    int32_t good = 0, bad = 0;
    for (int32_t count = 1; count <= 3; count++) {
        int64_t range = count + 3, cases = 1; /* -2 .. count */
        for (int32_t i = 0; i < 2 * count; i++)
            cases *= range;
        for (int64_t code = 0; code < cases; code++) {
            struct tree tree = {.count = count};
            int64_t left = code;
            for (int32_t i = 0; i < count; i++) {
                tree.left[i] = left % range - 2;
                left /= range;
                tree.right[i] = left % range - 2;
                left /= range;
            }
            check_tree(cells, &tree, &good, &bad);
        }
    }
    /* One tree of a single node, and trees of 3 nodes in 6 orders. */
    assert_int_equal(good, 1 + 6);
    assert_true(bad > 40000);
    tt_cells_close(cells);
}

/* A random tree with randomly numbered nodes; half of them have an error. */
static void random_tree(struct tt_prng *prng, struct tree *tree) {
    int32_t names[MAX_NODES], roots[MAX_NODES], root_count = 0, used = 0;
    int32_t leaves = 1 + (int32_t)tt_prng_below(prng, MAX_NODES / 2);
    *tree = (struct tree){.count = 2 * leaves - 1};
    for (int32_t i = 0; i < tree->count; i++) {
        int32_t other = (int32_t)tt_prng_below(prng, (uint64_t)i + 1);
        names[i] = names[other];
        names[other] = i;
        tree->tokens[i] = (int64_t)tt_prng_below(prng, 100);
    }
    for (int32_t i = 0; i < leaves; i++) {
        int32_t node = names[used++];
        tree->left[node] = tree->right[node] = -1;
        roots[root_count++] = node;
    }
    while (root_count > 1) {
        int32_t node = names[used++];
        for (int side = 0; side < 2; side++) {
            int32_t which = (int32_t)tt_prng_below(prng, (uint64_t)root_count);
            (side ? tree->right : tree->left)[node] = roots[which];
            roots[which] = roots[--root_count];
        }
        roots[root_count++] = node;
    }
    for (uint64_t changes = tt_prng_below(prng, 4); changes > 1; changes--) {
        int64_t *side = tt_prng_below(prng, 2) ? tree->left : tree->right;
        int32_t node = (int32_t)tt_prng_below(prng, (uint64_t)tree->count);
        side[node] = (int64_t)tt_prng_below(prng, (uint64_t)tree->count + 3) - 2;
    }
}

static void test_random_trees(void **state) {
    (void)state;
    put_cell_files();
    struct tt_cells *cells = open_cells(TREE "unfold { kind: TREE }");
    uint64_t seed = test_seed(20180423);
    struct tt_prng prng;
    tt_prng_init(&prng, seed, 0);
    int32_t good = 0, bad = 0;
    for (int32_t i = 0; i < 100000; i++) {
        struct tree tree;
        random_tree(&prng, &tree);
        check_tree(cells, &tree, &good, &bad);
    }
    print_message("%d good, %d bad\n", good, bad);
    assert_true(good > 20000 && bad > 20000);
    tt_cells_close(cells);
}

/* The deepest tree: nothing recurses. */
static void test_a_deep_tree(void **state) {
    (void)state;
    enum { LEAVES = 100000, COUNT = 2 * LEAVES - 1 };
    put_cell_files();
    struct tt_cells *cells = open_cells(TREE "unfold { kind: TREE max_length: 262144 }");
    int64_t *tokens = calloc(COUNT, sizeof(*tokens)), *left = calloc(COUNT, sizeof(*left)),
            *right = calloc(COUNT, sizeof(*right));
    assert_true(tokens && left && right);
    for (int32_t i = 0; i < COUNT;
         i++) { /* even nodes are leaves, except the last odd node's child */
        bool inner = i % 2 == 1;
        left[i] = inner ? i - 1 : -1;
        right[i] = inner ? (i + 2 < COUNT ? i + 2 : i + 1) : -1;
    }
    struct tt_unfold_tensor tensors[] = {row(tokens, COUNT), row(left, COUNT), row(right, COUNT)};
    struct tt_unfolded *unfolded = unfold(cells, tensors);
    assert_int_equal(unfolded->spec_count, COUNT);
    assert_int_equal(tt_unfold_element(unfolded, unfolded->answer_spec, 0), 1);
    tt_unfold_free(unfolded);
    free(tokens);
    free(left);
    free(right);
    tt_cells_close(cells);
}

static void test_three_children(void **state) {
    (void)state;
    put_cell_files();
    put_cell_file("three.onnx", "in:a:1:N,4 in:b:1:N,4 in:c:1:N,4 out:h:1:N,4", "three");
    struct tt_cells *cells = open_cells(
        "cell { file: 'leaf.onnx' " READ "state { output: 'h' } } "
        "cell { file: 'three.onnx' state { output: 'h' input: 'a' input: 'b' input: 'c' } } "
        "unfold { kind: TREE children: 'first' children: 'second' children: 'third' answer: 'h' }");
    const int64_t tokens[4] = {1, 2, 3, 4}, first[4] = {-1, 3, -1, -1}, second[4] = {-1, 0, -1, -1},
                  third[4] = {-1, 2, -1, -1};
    struct tt_unfold_tensor tensors[] = {row(tokens, 4), row(first, 4), row(second, 4),
                                         row(third, 4)};
    struct tt_unfolded *unfolded = unfold(cells, tensors);
    const struct tt_cell_spec *root = &unfolded->specs[unfolded->answer_spec];
    assert_int_equal(root->source_count, 3);
    static const int32_t wanted[] = {3, 0, 2};
    for (int32_t k = 0; k < 3; k++)
        assert_int_equal(tt_unfold_element(unfolded, root->sources[k], 0), wanted[k]);
    tt_unfold_free(unfolded);
    tt_cells_close(cells);
}

/* Without files: one cell per static step, and one of all its steps per recurrent block; or a tree.
 */
static void test_plain(void **state) {
    (void)state;
    struct tt_error why;
    struct tt_profile *profile;
    assert_int_equal(tt_profile_new_linear(1, 1, 8, &profile, &why), TT_OK);
    static const enum tt_step_kind kinds[] = {TT_STEP_STATIC,  TT_STEP_ENCODER, TT_STEP_ENCODER,
                                              TT_STEP_STATIC,  TT_STEP_STATIC,  TT_STEP_DECODER,
                                              TT_STEP_DECODER, TT_STEP_STATIC};
    struct tt_step steps[TT_COUNT(kinds)];
    for (size_t s = 0; s < TT_COUNT(kinds); s++)
        steps[s] = (struct tt_step){.name = "step", .profile = profile, .kind = kinds[s]};
    struct tt_cells_plain plain = {
        .step_count = TT_COUNT(kinds), .steps = steps, .max_length = 100, .max_output = 7};
    struct tt_cells *cells;
    assert_int_equal(tt_cells_new_plain(&plain, &cells), TT_OK);
    const int32_t lengths[] = {2, 2, 2};
    struct tt_unfold_tensor said = {.bytes = lengths, .shape = {.rank = 2, .dims = {1, 3}}};
    struct tt_unfolded *unfolded = unfold(cells, &said);
    static const int32_t expected[][3] = {{0, 0, 1}, {1, 2, 3}, {3, 3, 1},
                                          {4, 4, 1}, {5, 6, 7}, {7, 7, 1}};
    assert_int_equal(unfolded->spec_count, TT_COUNT(expected));
    for (int32_t s = 0; s < unfolded->spec_count; s++) {
        const struct tt_cell_spec *spec = &unfolded->specs[s];
        assert_int_equal(spec->first_step, expected[s][0]);
        assert_int_equal(spec->last_step, expected[s][1]);
        assert_int_equal(spec->repeat, expected[s][2]);
        assert_int_equal(spec->open_ended, kinds[spec->first_step] == TT_STEP_DECODER);
        assert_int_equal(spec->source_count, s > 0);
        assert_true(s == 0 || spec->sources[0] == s - 1);
    }
    assert_int_equal(unfolded->answer_spec, 5);
    check_graph(cells, unfolded, 14);
    tt_unfold_free(unfolded);
    tt_cells_close(cells);
    plain = (struct tt_cells_plain){
        .step_count = 2, .steps = steps, .is_tree = true, .max_length = 100};
    steps[1].kind = TT_STEP_STATIC;
    assert_int_equal(tt_cells_new_plain(&plain, &cells), TT_OK);
    const int64_t left[] = {-1, -1, 0}, right[] = {-1, -1, 1};
    unfolded = unfold(cells, (struct tt_unfold_tensor[]){row(left, 3), row(right, 3)});
    assert_int_equal(unfolded->answer_spec, 2);
    check_graph(cells, unfolded, 3);
    tt_unfold_free(unfolded);
    tt_cells_close(cells);
    tt_profile_free(profile);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_chain, make_cell_home, remove_cell_home),
        cmocka_unit_test_setup_teardown(test_chunks_of_elements, make_cell_home, remove_cell_home),
        cmocka_unit_test_setup_teardown(test_elements_of_several_tensors, make_cell_home,
                                        remove_cell_home),
        cmocka_unit_test_setup_teardown(test_sequence_to_sequence, make_cell_home,
                                        remove_cell_home),
        cmocka_unit_test_setup_teardown(test_a_tree, make_cell_home, remove_cell_home),
        cmocka_unit_test_setup_teardown(test_small_trees_exhausted, make_cell_home,
                                        remove_cell_home),
        cmocka_unit_test_setup_teardown(test_random_trees, make_cell_home, remove_cell_home),
        cmocka_unit_test_setup_teardown(test_a_deep_tree, make_cell_home, remove_cell_home),
        cmocka_unit_test_setup_teardown(test_three_children, make_cell_home, remove_cell_home),
        cmocka_unit_test(test_plain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
