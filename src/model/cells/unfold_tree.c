#include "model/cells/unfold_internal.h"

#include <stdlib.h>

struct tree {
    const struct tt_cells *cells;
    const int64_t *children[TT_CELLS_MAX_ARITY];
    int32_t arity, count;
    int32_t *parent; /* of each node; -1: none */
    int32_t *order;  /* nodes from the root on, each after its parent */
    int32_t *spec;   /* of each node: its index in the specs */
    int32_t leaf_count;
    struct tt_error *why;
};

static const char *tensor_name(const struct tree *tree, int32_t child) {
    return tree->cells->signature.inputs[tree->cells->children[child]].name;
}

static bool is_leaf(const struct tree *tree, int32_t node) { return tree->children[0][node] < 0; }

static enum tt_err take_child(struct tree *tree, int32_t node, int32_t which) {
    int64_t child = tree->children[which][node];
    if (child == -1)
        return TT_OK;
    if (child < 0 || child >= tree->count)
        return tt_fail(TT_ERR_INVALID, tree->why,
                       "element %d of input '%s' is %lld; a child is the number of a node, 0 to "
                       "%d, or -1 for none",
                       node, tensor_name(tree, which), (long long)child, tree->count - 1);
    if (tree->parent[child] >= 0)
        return tt_fail(TT_ERR_INVALID, tree->why,
                       "element %d of input '%s': node %lld is a child of node %d already; each "
                       "node of a tree has one parent",
                       node, tensor_name(tree, which), (long long)child, tree->parent[child]);
    tree->parent[child] = node;
    return TT_OK;
}

/* Takes all children of a node; a leaf has none, an inner node has all. */
static enum tt_err take_node(struct tree *tree, int32_t node) {
    int32_t missing = 0, last_missing = 0;
    for (int32_t k = 0; k < tree->arity; k++) {
        if (tree->children[k][node] == -1) {
            missing++;
            last_missing = k;
        }
    }
    tree->leaf_count += missing == tree->arity;
    if (missing > 0 && missing < tree->arity)
        return tt_fail(TT_ERR_INVALID, tree->why,
                       "element %d of input '%s' is -1: node %d has %d of the %d children of an "
                       "inner node; a leaf has none",
                       node, tensor_name(tree, last_missing), node, tree->arity - missing,
                       tree->arity);
    enum tt_err err = TT_OK;
    for (int32_t k = 0; !err && k < tree->arity; k++)
        err = take_child(tree, node, k);
    return err;
}

static enum tt_err find_root(struct tree *tree, int32_t *out_root) {
    int32_t root = -1;
    for (int32_t i = 0; i < tree->count; i++) {
        if (tree->parent[i] >= 0)
            continue;
        if (root >= 0)
            return tt_fail(TT_ERR_INVALID, tree->why,
                           "inputs '%s' ...: nodes %d and %d both have no parent; a tree has one "
                           "root",
                           tensor_name(tree, 0), root, i);
        root = i;
    }
    if (root < 0)
        return tt_fail(TT_ERR_INVALID, tree->why,
                       "inputs '%s' ...: every node is a child of another one, so that there is a "
                       "cycle and no root",
                       tensor_name(tree, 0));
    *out_root = root;
    return TT_OK;
}

/* Orders the nodes by level from the root. A node that is not reached has a parent but no root
 * above it: there is a cycle. */
static enum tt_err put_in_order(struct tree *tree, int32_t root) {
    int32_t met = 0;
    tree->order[met++] = root;
    for (int32_t i = 0; i < met; i++)
        for (int32_t k = 0; k < tree->arity && !is_leaf(tree, tree->order[i]); k++)
            tree->order[met++] = (int32_t)tree->children[k][tree->order[i]];
    if (met == tree->count)
        return TT_OK;
    for (int32_t i = 0; i < tree->count; i++)
        tree->spec[i] = -1;
    for (int32_t i = 0; i < met; i++)
        tree->spec[tree->order[i]] = i;
    int32_t lost = 0;
    while (tree->spec[lost] >= 0)
        lost++;
    /* Going up once per node ends inside the cycle. */
    for (int32_t i = 0; i < tree->count; i++)
        lost = tree->parent[lost];
    return tt_fail(TT_ERR_INVALID, tree->why,
                   "inputs '%s' ...: node %d is its own ancestor; a tree has no cycle",
                   tensor_name(tree, 0), lost);
}

/* Leaves first, then inner nodes from the bottom, so that each reads only earlier ones. */
static void write_specs(struct tree *tree, struct tt_unfolded *self, int32_t *sources) {
    int32_t leaf = 0, inner = tree->leaf_count;
    for (int32_t i = tree->count - 1; i >= 0; i--) {
        int32_t node = tree->order[i];
        bool at_bottom = is_leaf(tree, node);
        int32_t number = at_bottom ? leaf++ : inner++;
        struct tt_cell_spec *spec = &self->specs[number];
        tree->spec[node] = number;
        self->elements[number] = (struct tt_unfold_elements){.first = node};
        *spec = (struct tt_cell_spec){
            .first_step = !at_bottom, .last_step = !at_bottom, .repeat = 1, .sources = sources};
        for (int32_t k = 0; k < tree->arity && !at_bottom; k++)
            sources[spec->source_count++] = tree->spec[tree->children[k][node]];
        sources += spec->source_count;
    }
    self->answer_spec = tree->spec[tree->order[0]];
    self->output_length = self->specs[self->answer_spec].repeat *
                          (tree->cells->types[self->specs[self->answer_spec].first_step].emit >= 0);
}

enum tt_err tt_unfold_as_tree(const struct tt_cells *cells, const struct tt_unfold_tensor *tensors,
                              int32_t length, struct tt_unfolded **out_unfolded,
                              struct tt_error *why) {
    int32_t *scratch = malloc((size_t)length * 3 * sizeof(*scratch));
    if (!scratch)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a tree of %d nodes", length);
    struct tree tree = {.cells = cells,
                        .arity = cells->child_count,
                        .count = length,
                        .parent = scratch,
                        .order = scratch + length,
                        .spec = scratch + 2 * (size_t)length,
                        .why = why};
    for (int32_t k = 0; k < tree.arity; k++)
        tree.children[k] = tensors[cells->children[k]].bytes;
    for (int32_t i = 0; i < length; i++)
        tree.parent[i] = -1;
    enum tt_err err = TT_OK;
    int32_t root = 0;
    for (int32_t i = 0; !err && i < length; i++)
        err = take_node(&tree, i);
    if (!err)
        err = find_root(&tree, &root);
    if (!err)
        err = put_in_order(&tree, root);
    int32_t *sources = NULL;
    struct tt_unfolded *unfolded = NULL;
    if (!err && !(unfolded = tt_unfolded_new(length, length - 1, &sources, why)))
        err = TT_ERR_NO_MEMORY;
    if (!err) {
        write_specs(&tree, unfolded, sources);
        *out_unfolded = unfolded;
    }
    free(scratch);
    return err;
}
